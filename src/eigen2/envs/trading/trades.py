"""Every trade of a backtest, one by one: what was bought and sold, when, at which price, for which reason."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eigen2.envs.trading.portfolios import IntArray
from eigen2.market.data import FloatArray

REASONS = ("order", "rebalance", "rejected", "target", "time limit", "delisted")
"""order: opened; rebalance: towards the wanted weight; rejected: the agent no longer wants it; target: the sale target was
reached; time limit: held long enough; delisted: written off."""


@dataclass(frozen=True)
class Trades:
    """One entry per trade, in the order of execution."""

    day: IntArray
    """[K] on which it was filled."""
    row: IntArray
    """[K] portfolio."""
    symbol: IntArray
    """[K] position among the tradable symbols."""
    shares: FloatArray
    """[K] bought; negative when sold."""
    value: FloatArray
    """[K] quoted, not negative."""
    cost: FloatArray
    """[K] fee, slippage and penalty."""
    reason: IntArray
    """[K] position in `REASONS`."""


@dataclass
class TradeLog:
    """Collects the trades of a core that was asked to log them (`TradingCore.record_trades`)."""

    parts: list[Trades] = field(default_factory=list)

    def add(
        self,
        day: IntArray,
        row: IntArray,
        symbol: IntArray,
        shares: FloatArray,
        value: FloatArray,
        cost: FloatArray,
        reason: npt.NDArray[np.integer] | str,
    ) -> None:
        why = np.full(len(row), REASONS.index(reason)) if isinstance(reason, str) else reason
        self.parts.append(Trades(day, row, symbol, shares, value, cost, np.asarray(why, np.int64)))

    def trades(self) -> Trades:
        parts: Sequence[Trades] = self.parts
        if not parts:
            whole, real = np.zeros(0, np.int64), np.zeros(0)
            return Trades(whole, whole, whole, real, real, real, whole)
        names = Trades.__dataclass_fields__
        return Trades(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
