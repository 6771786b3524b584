"""Figures of one daily return series: what it earned, how it swung, how sure we can be.

A series is given as daily *log* returns `[day]`, the unit the environment pays in. Ratios that practitioners
compare (volatility, Sharpe, Sortino) are computed on simple returns, as ffn and empyrical do. A figure that does
not exist - the Sharpe ratio of a portfolio that never moved - is None, never NaN and never infinite. What a year is
(`per_year` periods) is the market's to say: `MarketData.periods_per_year`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eigen2.market.data import FloatArray

DRAWS = 4000
"""Bootstrap resamples of a verdict: the lower end of a 98 % interval then rests on 40 draws."""
SHARPE_DRAWS = 1000
"""Resamples of the 95 % interval shown beside a Sharpe ratio."""
CHUNK = 250
"""Resamples held in memory at a time: [250, day] indices."""


@dataclass(frozen=True)
class Interval:
    """Both ends of a two-sided confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Performance:
    """What a return series amounted to; fractions, not percent."""

    days: int
    log_return: float
    """Sum of the daily log returns."""
    simple_return: float
    cagr: float
    volatility: float
    """Standard deviation of daily simple returns, annualised."""
    sharpe: float | None
    sharpe_ci: Interval | None
    """95 % block bootstrap interval of the Sharpe ratio."""
    sortino: float | None
    max_drawdown: float
    """Deepest fall of equity from its highest point so far, at most 0."""
    hit_rate: float | None
    """Share of days with a gain among the days on which equity moved."""


def performance(log_returns: FloatArray, per_year: int, generator: np.random.Generator) -> Performance:
    """All figures of a series `[day]`; `generator` is read for the bootstrap only."""
    returns = np.expm1(log_returns)
    total = float(log_returns.sum())
    return Performance(
        days=len(log_returns),
        log_return=total,
        simple_return=float(np.expm1(total)),
        cagr=cagr(log_returns, per_year),
        volatility=volatility(returns, per_year),
        sharpe=sharpe(returns, per_year),
        sharpe_ci=sharpe_interval(returns, per_year, generator),
        sortino=sortino(returns, per_year),
        max_drawdown=max_drawdown(log_returns),
        hit_rate=hit_rate(returns),
    )


def cagr(log_returns: FloatArray, per_year: int) -> float:
    """Compound growth a year."""
    return float(np.expm1(log_returns.mean() * per_year))


def volatility(returns: FloatArray, per_year: int) -> float:
    """Annualised standard deviation; 0 for a single day, which cannot vary."""
    return float(returns.std(ddof=1) * np.sqrt(per_year)) if len(returns) > 1 else 0.0


def sharpe(returns: FloatArray, per_year: int) -> float | None:
    """mean / deviation * sqrt(per_year) of simple returns over cash at 0 %."""
    return float(returns.mean() / returns.std(ddof=1) * np.sqrt(per_year)) if moves(returns) else None


def sortino(returns: FloatArray, per_year: int) -> float | None:
    """mean / root mean square of the losses * sqrt(per_year); None when there was no loss."""
    downside = float(np.sqrt(np.mean(np.minimum(returns, 0.0) ** 2)))
    return float(returns.mean() / downside * np.sqrt(per_year)) if downside > 0.0 else None


def max_drawdown(log_returns: FloatArray) -> float:
    path = np.concatenate([[0.0], np.cumsum(log_returns)])
    return float(np.expm1(np.min(path - np.maximum.accumulate(path))))


def hit_rate(returns: FloatArray) -> float | None:
    moved = int(np.count_nonzero(returns))
    return int(np.count_nonzero(returns > 0.0)) / moved if moved else None


def moves(series: FloatArray) -> bool:
    """Whether a series varies beyond rounding, so that ratios to its deviation mean something."""
    if len(series) < 2:
        return False
    spread = float(series.max() - series.min())
    return spread > 4.0 * float(np.finfo(np.float64).eps) * float(np.abs(series).max())


def sharpe_interval(
    returns: FloatArray,
    per_year: int,
    generator: np.random.Generator,
    level: float = 0.95,
    draws: int = SHARPE_DRAWS,
) -> Interval | None:
    """Percentile interval of the annualised Sharpe ratio under the stationary block bootstrap."""
    if not moves(returns):
        return None
    ratios = bootstrap(returns, lambda rows: _sharpe_of_rows(rows, per_year), generator, draws)
    return interval(ratios, level)


def bootstrap(
    series: FloatArray,
    statistic: Callable[[FloatArray], FloatArray],
    generator: np.random.Generator,
    draws: int = DRAWS,
) -> FloatArray:
    """`statistic` (rows `[n, day]` -> `[n]`) of resampled series, `[draws]`.

    Stationary bootstrap of Politis and Romano: runs of days of random length are drawn from the series laid on a
    circle, so that what is correlated from day to day stays so.
    """
    out = np.empty(draws)
    for begin in range(0, draws, CHUNK):
        rows = min(CHUNK, draws - begin)
        out[begin : begin + rows] = statistic(series[stationary_days(len(series), rows, generator)])
    return out


def stationary_days(days: int, draws: int, generator: np.random.Generator) -> npt.NDArray[np.int32]:
    """Day indices `[draws, days]` in runs whose mean length is the cube root of the sample's."""
    restart = generator.random((draws, days), dtype=np.float32) < 1.0 / block_length(days)
    restart[:, 0] = True
    starts = generator.integers(days, size=(draws, days), dtype=np.int32)
    column = np.arange(days, dtype=np.int32)
    run_began = np.maximum.accumulate(np.where(restart, column, 0), axis=1)
    indices: npt.NDArray[np.int32] = (
        np.take_along_axis(starts, run_began, axis=1) + column - run_began
    ) % days
    return indices


def block_length(days: int) -> float:
    """T^(1/3): the rate at which the bootstrap variance of a mean converges fastest."""
    return max(1.0, math.cbrt(days))


def interval(samples: FloatArray, level: float) -> Interval:
    low, high = np.quantile(samples, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(float(low), float(high))


def _sharpe_of_rows(rows: FloatArray, per_year: int) -> FloatArray:
    """Sharpe ratios of rows `[n, day]`; a resample that happens not to move has earned nothing per risk: 0."""
    deviation = rows.std(axis=1, ddof=1)
    ratio = np.divide(rows.mean(axis=1), deviation, out=np.zeros(len(rows)), where=deviation > 0.0)
    return np.asarray(ratio * np.sqrt(per_year))
