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
FADING = 0.97
"""What is left after a day of the correlation of squared returns."""
SMALLEST_VARIANCE = 0.05
"""Of a standardised sum per day: days that cancel out so well are luck."""


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
    """95 % interval of the Sharpe ratio, by the studentised block bootstrap."""
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
    """Interval of the annualised Sharpe ratio: studentised, under the stationary block bootstrap."""
    if not moves(returns):
        return None
    found = studentised(returns, sharpe_and_error, generator, draws, (level,))[0]
    return Interval(found.low * math.sqrt(per_year), found.high * math.sqrt(per_year))


Estimator = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Rows `[n, day]` -> estimates `[n]` and their standard errors `[n]`."""


def studentised(
    series: FloatArray,
    estimator: Estimator,
    generator: np.random.Generator,
    draws: int,
    levels: tuple[float, ...],
) -> list[Interval]:
    """Bootstrap-t intervals, one per level: how many of its own standard errors a resampled estimate lies off.

    A percentile interval of 250 days is too narrow, and sits too high where calm and stormy times alternate.
    """
    (estimate,), (error,) = estimator(series[None])

    def off(rows: FloatArray) -> FloatArray:
        found, errors = estimator(rows)
        # A resample of hardly any movement would be infinitely sure of itself.
        return np.asarray((found - estimate) / np.maximum(errors, error / 10.0))

    ratios = bootstrap(series, off, generator, draws)
    ends = [interval(ratios, level) for level in levels]
    return [Interval(float(estimate - q.high * error), float(estimate - q.low * error)) for q in ends]


def mean_and_error(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means of rows `[n, day]` and their standard errors, which allow for correlation from day to day."""
    mean = rows.mean(axis=1)
    centred = rows - mean[:, None]
    return mean, np.sqrt(np.maximum(_long_run(centred), 0.0) / rows.shape[1])


def sharpe_and_error(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Daily Sharpe ratios S of rows `[n, day]` and their standard errors.

    With z the standardised days, n Var(S) = V(z) + S^2/4 V(z^2) - S C(z, z^2): V the variance of a sum per day, C the
    covariance. Storms last for weeks: a year of calm days shows a volatility below its long-run mean and a Sharpe ratio
    above it. V(z^2) therefore takes the correlation of squares to fade by 3 % a day, as it does in most markets.
    """
    days = rows.shape[1]
    mean, deviation = rows.mean(axis=1), rows.std(axis=1)
    # A resample that happens not to move has earned nothing per risk.
    scale = np.divide(1.0, deviation, out=np.zeros(len(rows)), where=deviation > 0.0)
    ratio = mean * scale
    scores = (rows - mean[:, None]) * scale[:, None]
    squares = scores**2 - 1.0
    variance = (
        _long_run(scores) + ratio**2 / 4.0 * _fading_run(squares) - ratio * (scores * squares).mean(axis=1)
    )
    return ratio, np.sqrt(np.maximum(variance, SMALLEST_VARIANCE) / days)


def _long_run(centred: FloatArray) -> FloatArray:
    """Variance of a sum per day, `[n]`, of centred rows `[n, day]`: Bartlett's weights over the cube root of the days."""
    days = centred.shape[1]
    lags = min(round(block_length(days)), days // 4)
    total = (centred**2).mean(axis=1)
    for lag in range(1, lags + 1):
        total = total + 2.0 * (1.0 - lag / (lags + 1)) * _autocovariance(centred, lag)
    return np.asarray(total)


def _fading_run(centred: FloatArray) -> FloatArray:
    """The same for autocorrelations of the form r FADING^(lag - 1), r >= 0 fitted to the first 20 lags."""
    own = (centred**2).mean(axis=1)
    lags = min(20, centred.shape[1] // 4)
    if lags == 0:
        return np.asarray(own)
    weights = FADING ** np.arange(lags)
    seen = sum(weights[lag - 1] * _autocovariance(centred, lag) for lag in range(1, lags + 1))
    first = np.maximum(seen / (weights**2).sum(), 0.0)
    return np.asarray(own + 2.0 * first / (1.0 - FADING))


def _autocovariance(centred: FloatArray, lag: int) -> FloatArray:
    return np.asarray((centred[:, lag:] * centred[:, :-lag]).sum(axis=1) / centred.shape[1])


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
