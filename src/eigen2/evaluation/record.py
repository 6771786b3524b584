"""The figures of one strategy on one split, ready to be shown."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from eigen2.evaluation import statistics
from eigen2.evaluation.backtest import Backtest
from eigen2.evaluation.statistics import Interval, Performance
from eigen2.market.data import FloatArray


@dataclass(frozen=True)
class Record:
    """What one strategy did; for random play the means over all draws."""

    performance: Performance
    turnover: float
    """Value bought plus value sold in a year, in units of equity."""
    trades: float
    """Positions opened."""
    exposure: float
    """Mean share of equity invested."""
    log_return_range: Interval | None = None
    """95 % range over the draws of random play."""

    def to_json(self) -> dict[str, Any]:
        figures: dict[str, Any] = asdict(self.performance)
        figures["sharpe_ci"] = pair(self.performance.sharpe_ci)
        figures |= {"turnover": self.turnover, "trades": self.trades, "exposure": self.exposure}
        if self.log_return_range is not None:
            figures["log_return_range"] = pair(self.log_return_range)
        return figures


def record(backtest: Backtest, generator: np.random.Generator) -> Record:
    """Figures of a backtest of one portfolio, or of many draws of the same random policy."""
    returns, per_year = backtest.log_returns, backtest.periods_per_year
    single = len(returns) == 1
    figures = (
        statistics.performance(returns[0], per_year, generator)
        if single
        else mean_performance(returns, per_year)
    )
    return Record(
        performance=figures,
        turnover=float(backtest.annual_turnover.mean()),
        trades=float(backtest.trades.mean()),
        exposure=float(backtest.exposure.mean()),
        log_return_range=None if single else statistics.interval(returns.sum(axis=1), 0.95),
    )


def mean_performance(log_returns: FloatArray, per_year: int) -> Performance:
    """Mean figures of draws `[draw, day]`; the interval of the Sharpe ratio is its 95 % range over the draws."""
    returns = np.expm1(log_returns)
    totals = log_returns.sum(axis=1)
    ratios = [statistics.sharpe(row, per_year) for row in returns]
    known = [ratio for ratio in ratios if ratio is not None]
    return Performance(
        days=log_returns.shape[1],
        log_return=float(totals.mean()),
        simple_return=float(np.expm1(totals).mean()),
        cagr=float(np.mean([statistics.cagr(row, per_year) for row in log_returns])),
        volatility=float(np.mean([statistics.volatility(row, per_year) for row in returns])),
        sharpe=_mean_of_known(ratios),
        sharpe_ci=statistics.interval(np.array(known), 0.95) if known else None,
        sortino=_mean_of_known([statistics.sortino(row, per_year) for row in returns]),
        max_drawdown=float(np.mean([statistics.max_drawdown(row) for row in log_returns])),
        hit_rate=_mean_of_known([statistics.hit_rate(row) for row in returns]),
    )


def pair(ends: Interval | None) -> list[float] | None:
    """An interval as JSON has it."""
    return None if ends is None else [ends.low, ends.high]


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
