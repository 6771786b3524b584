"""Weights: target portfolio weights by softmax over one logit per symbol and one for cash, rebalanced daily.

Trading costs money, so the wealth x that is left to distribute solves

    x + rate * sum_i |w_i x - v_i| = cash + sum_i v_i

over the symbols with a price on the fill day (v_i: value before the trade). The left side is convex and increasing
in x; Newton's method reaches the root after a few steps. Holdings without a price stay untouched.
"""

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading.portfolios import IntArray, Ledger, Portfolios
from eigen2.envs.trading.prices import BoolArray, PriceTables
from eigen2.market.data import FloatArray

LOGIT_BOUND = 10.0
_TOLERANCE = 1e-15
_MOST_STEPS = 100


class WeightRules:
    """`weights`: every symbol is touched every day, so the work is done on whole rows [B, N]."""

    def __init__(self, config: TradingConfig, tables: PriceTables, batch: int) -> None:
        self._tables = tables
        self._batch, self._symbols = batch, tables.symbols
        self._complete_day = tables.complete
        self._cost_rate = (config.fee_bp + config.slippage_bp) * 1e-4
        self._delisting_penalty = config.delisting_penalty

    @property
    def action_shape(self) -> tuple[int, ...]:
        return (self._symbols + 1,)

    @property
    def action_bounds(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        high = np.full(self.action_shape, LOGIT_BOUND, np.float32)
        return -high, high

    def advance(self, books: Portfolios, action: npt.NDArray[np.floating], live: BoolArray | None) -> Ledger:
        """Carries the live portfolios (all when None) over one day; action [B, N + 1], the last logit is cash."""
        ledger = Ledger.blank(self._batch, self._symbols)
        rows: slice | IntArray = slice(None) if live is None else np.flatnonzero(live)
        day = books.day[rows] + 1
        fill, mark = self._tables.fill[day], self._tables.mark[day]
        known = None if self._complete_day[day].all() else self._tables.known[day]
        equity = books.equity[rows]
        held_before = books.shares[rows]
        before = books.value[rows]
        at_fill = held_before * fill
        cash = books.cash[rows]

        cost = np.zeros_like(at_fill)
        if known is not None:
            cash, held_before = self._write_off(day, cash, held_before, at_fill, cost)

        weights = softmax_with_cash(action[rows], known)
        tradable_value = at_fill if known is None else np.where(known, held_before * fill, 0.0)
        wealth = cash + tradable_value.sum(axis=1)
        left = distributable(wealth, weights, tradable_value, self._cost_rate)

        wanted = weights * left[:, None]
        traded = np.abs(wanted - tradable_value)
        trading_cost = traded * self._cost_rate
        books.cash[rows] = np.maximum(wealth - wanted.sum(axis=1) - trading_cost.sum(axis=1), 0.0)
        cost += trading_cost
        if known is None:
            shares, after_trade = wanted / fill, wanted
        else:
            shares = np.where(
                known, np.divide(wanted, fill, out=np.zeros_like(fill), where=known), held_before
            )
            after_trade = shares * fill
        value = shares * mark

        ledger.pnl[rows] = (at_fill - before + (value - after_trade)).sum(axis=1)
        ledger.costs[rows] = cost.sum(axis=1)
        ledger.traded[rows] = traded.sum(axis=1)
        ledger.opened[rows] = ((shares > 0.0) & (held_before == 0.0)).sum(axis=1)
        overnight, intraday = 1.0 + self._tables.overnight[day], 1.0 + self._tables.intraday[day]
        excess = at_fill - before * overnight[:, None] + value - after_trade * intraday[:, None] - cost
        ledger.contribution[rows] = excess / equity[:, None]
        books.entry[rows] = _average_price(books.entry[rows], held_before, shares, fill)
        books.shares[rows], books.value[rows] = shares, value
        return ledger

    def _write_off(
        self, day: IntArray, cash: FloatArray, shares: FloatArray, at_fill: FloatArray, cost: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Closes delisted holdings at the last known price less the penalty; returns (cash, shares)."""
        gone = self._tables.delisted[day] & (shares > 0.0)
        if not gone.any():
            return cash, shares
        cost[gone] = at_fill[gone] * self._delisting_penalty
        proceeds = np.where(gone, at_fill - cost, 0.0).sum(axis=1)
        return cash + proceeds, np.where(gone, 0.0, shares)


def softmax_with_cash(logits: npt.NDArray[np.floating], known: BoolArray | None) -> FloatArray:
    """Weights [B, N] of the symbols; what is missing to one is cash. Logits [B, N + 1]; unknown symbols get zero."""
    power = np.exp(np.clip(logits, -LOGIT_BOUND, LOGIT_BOUND).astype(np.float64))
    if known is not None:
        power[:, :-1] *= known
    weights: FloatArray = power[:, :-1] / power.sum(axis=1)[:, None]
    return weights


def distributable(wealth: FloatArray, weights: FloatArray, value: FloatArray, rate: float) -> FloatArray:
    """The root x [B] of x + rate * sum |weights x - value| = wealth; each row stops by itself."""
    x = wealth.copy()
    if rate == 0.0:
        return x
    for _ in range(_MOST_STEPS):
        change = weights * x[:, None] - value
        error = x + rate * np.abs(change).sum(axis=1) - wealth
        if not (np.abs(error) > _TOLERANCE * wealth).any():
            break
        slope = 1.0 + rate * (weights * np.sign(change)).sum(axis=1)
        x = np.where(np.abs(error) > _TOLERANCE * wealth, x - error / slope, x)
    return x


def _average_price(entry: FloatArray, held: FloatArray, shares: FloatArray, fill: FloatArray) -> FloatArray:
    """Average price paid: selling leaves it alone, buying mixes in the fill price."""
    bought = np.maximum(shares - held, 0.0)
    paid = entry * (shares - bought) + fill * bought
    average: FloatArray = np.divide(paid, shares, out=np.zeros_like(paid), where=shares > 0.0)
    return average
