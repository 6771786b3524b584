"""Weights: target portfolio weights by softmax over one logit per symbol and one for cash, rebalanced daily.

Trading costs money, so the wealth x that is left to distribute solves

    x + cost of (|w_1 x - v_1|, ..., |w_N x - v_N|) = cash + sum_i v_i

over the symbols with a price on the fill day (v_i: value before the trade). The left side is increasing and nearly
linear in x (see `costs`); Newton's method reaches the root after a few steps. Holdings without a price stay untouched.
"""

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading.costs import CostModel
from eigen2.envs.trading.portfolios import SMALLEST_EQUITY, IntArray, Ledger, Portfolios
from eigen2.envs.trading.price_tables import BoolArray, PriceTables
from eigen2.envs.trading.trades import TradeLog
from eigen2.market.data import FloatArray

LOGIT_BOUND = 10.0
_TOLERANCE = 1e-14
_MOST_STEPS = 100


class WeightRules:
    """`weights`: every symbol is touched every day, so the work is done on whole rows [B, N]."""

    def __init__(self, config: TradingConfig, tables: PriceTables, batch: int) -> None:
        self._tables = tables
        self._batch, self._symbols = batch, tables.symbols
        self._complete_day = tables.complete
        self._scratch = np.empty((8, batch, tables.symbols))
        self._costs = CostModel.of(config)
        self._delisting_penalty = config.delisting_penalty
        self.log: TradeLog | None = None

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
        fill, mark, at_fill, weights, change, shares, value, work = self._scratch[:, : len(day)]
        np.take(self._tables.fill, day, axis=0, out=fill, mode="clip")
        np.take(self._tables.mark, day, axis=0, out=mark, mode="clip")
        known = None if self._complete_day[day].all() else self._tables.known[day]
        before, held, cash, penalty = books.value[rows], books.shares[rows], books.cash[rows], None
        np.multiply(held, fill, out=at_fill)
        if known is not None:
            cash, held, penalty = self._write_off(day, cash, held, at_fill)

        softmax_with_cash(action[rows], known, out=weights)
        tradable = at_fill if known is None else held * fill * known
        wealth = cash + tradable.sum(axis=1)
        left, cost = distributable(wealth, weights, tradable, self._costs, out=change)
        wanted, traded = np.multiply(weights, left[:, None], out=weights), change
        after_trade = wanted
        if known is None:
            np.divide(wanted, fill, out=shares)
        else:
            np.copyto(shares, held)
            np.divide(wanted, fill, out=shares, where=known)
            after_trade = np.where(known, wanted, held * fill)
        np.multiply(shares, mark, out=value)
        if self.log is not None:
            self._note(self.log, rows, day, books.shares[rows], held, shares, traded, at_fill, penalty)

        ledger.traded[rows], ledger.costs[rows] = traded.sum(axis=1), cost
        ledger.pnl[rows] = _sums(at_fill) - _sums(before) + (_sums(value) - _sums(after_trade))
        new = held == 0.0
        if new.any():
            ledger.opened[rows] = np.count_nonzero(new & (shares > 0.0), axis=1)
        if penalty is not None:
            ledger.costs[rows] += penalty.sum(axis=1)

        books.cash[rows] = np.maximum(wealth - wanted.sum(axis=1) - cost, 0.0)
        np.multiply(before, (1.0 + self._tables.overnight[day])[:, None], out=work)
        excess = np.subtract(at_fill, work, out=work)
        excess += value
        excess -= np.multiply(after_trade, (1.0 + self._tables.intraday[day])[:, None], out=at_fill)
        excess -= self._costs.each(traded, out=traded)
        if penalty is not None:
            excess -= penalty
        excess /= np.maximum(books.equity[rows], SMALLEST_EQUITY)[:, None]
        ledger.contribution[rows] = excess
        books.shares[rows], books.value[rows] = shares, value
        return ledger

    def _note(
        self,
        log: TradeLog,
        rows: slice | IntArray,
        day: IntArray,
        before: FloatArray,
        held: FloatArray,
        shares: FloatArray,
        traded: FloatArray,
        at_fill: FloatArray,
        penalty: FloatArray | None,
    ) -> None:
        """`before` are the shares of yesterday, `held` those that are left when delisted ones are gone."""
        number = np.arange(self._batch)[rows]
        if penalty is not None:
            row, symbol = np.nonzero(before != held)
            gone = (row, symbol)
            log.add(day[row], number[row], symbol, -before[gone], at_fill[gone], penalty[gone], "delisted")
        row, symbol = np.nonzero(shares != held)
        cell = (row, symbol)
        value = traded[cell]
        log.add(
            day[row], number[row], symbol, (shares - held)[cell], value, self._costs.each(value), "rebalance"
        )

    def _write_off(
        self, day: IntArray, cash: FloatArray, held: FloatArray, at_fill: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Closes delisted holdings at the last known price less the penalty: (cash, shares, penalty)."""
        gone = self._tables.delisted[day] & (held > 0.0)
        if not gone.any():
            return cash, held, None
        penalty = np.where(gone, at_fill * self._delisting_penalty, 0.0)
        proceeds = np.where(gone, at_fill - penalty, 0.0).sum(axis=1)
        return cash + proceeds, np.where(gone, 0.0, held), penalty


def _sums(values: FloatArray) -> FloatArray:
    sums: FloatArray = values.sum(axis=1)
    return sums


def softmax_with_cash(logits: npt.NDArray[np.floating], known: BoolArray | None, out: FloatArray) -> None:
    """Weights [B, N] of the symbols; what is missing to one is cash. Logits [B, N + 1]; unknown symbols get zero."""
    power = np.clip(logits, -LOGIT_BOUND, LOGIT_BOUND).astype(np.float64)
    np.exp(power, out=power)
    if known is not None:
        power[:, :-1] *= known
    np.divide(power[:, :-1], power.sum(axis=1)[:, None], out=out)


def distributable(
    wealth: FloatArray, weights: FloatArray, value: FloatArray, costs: CostModel, out: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The root x [B] of x + cost of |weights x - value| = wealth, and the cost; `out` receives |weights x - value|.

    Each row stops by itself, so that its result does not depend on the others. The first slope is kept: it differs
    from the true one by less than twice the rate, which still gains several digits per step.
    """
    x = wealth.copy()
    slope = None
    for _ in range(_MOST_STEPS):
        change = np.multiply(weights, x[:, None], out=out)
        change -= value
        if slope is None:
            slope = 1.0 + costs.slope(np.copysign(weights, change))
        np.abs(change, out=change)
        cost = costs.total(change)
        error = x + cost - wealth
        unsolved = np.abs(error) > _TOLERANCE * wealth
        if not unsolved.any():
            break
        x -= np.where(unsolved, error / slope, 0.0)
    return x, cost
