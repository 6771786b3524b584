"""Orders: (coefficient, sale target) per symbol, at most a few new positions a day, exits by rule.

A day, in this order: holdings the agent no longer wants or whose last close reached the target are sold and delisted
ones written off, at the fill price; new positions are opened at the fill price; positions whose target the day's high
reaches are sold at the target, or at the fill price when it gaps over; positions held long enough are sold at the close.

**Targets.** With bars a target is an order that rests in the market from the entry on. Without them only closes are known:
what closes at or above its target is sold at the next fill (`target_fill=next_day`), never at the close that told so.

**Size.** A portfolio has `ceil(1 / position_fraction)` slots. A new position takes an equal share of the free
cash, `cash / free slots`, costs included: at most `position_fraction` of equity when prices have not moved. Money
decides only sizes, never which positions exist, and every size grows with cash alone; so higher costs
can never lead to a higher equity, and cash is never negative.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading.costs import CostModel
from eigen2.envs.trading.portfolios import SMALLEST_EQUITY, IntArray, Ledger, Portfolios
from eigen2.envs.trading.price_tables import BoolArray, PriceTables
from eigen2.envs.trading.trades import REASONS, TradeLog
from eigen2.market.data import FloatArray

ORIGINAL_TARGETS = (0.10, 0.50)
REJECTED, TARGET, TIME_LIMIT, DELISTED = map(REASONS.index, ("rejected", "target", "time limit", "delisted"))


@dataclass
class _Cells:
    """Some cells of [B, N] on the day being entered; cells of one row are in a fixed order."""

    cell: IntArray
    """[K] flat index into [B, N]."""
    row: IntArray
    """[K] portfolio."""
    quote: IntArray
    """[K] flat index into the price tables, [day, N]."""
    shares: FloatArray
    """[K]"""
    at_fill: FloatArray
    """[K] value at the fill price."""

    def subset(self, chosen: BoolArray) -> "_Cells":
        return _Cells(
            self.cell[chosen], self.row[chosen], self.quote[chosen], self.shares[chosen], self.at_fill[chosen]
        )

    def __add__(self, other: "_Cells") -> "_Cells":
        return _Cells(
            np.concatenate((self.cell, other.cell)),
            np.concatenate((self.row, other.row)),
            np.concatenate((self.quote, other.quote)),
            np.concatenate((self.shares, other.shares)),
            np.concatenate((self.at_fill, other.at_fill)),
        )


class OrderRules:
    """`orders` and `original`. The work is done on the few held cells, addressed by flat index into [B, N]."""

    def __init__(self, config: TradingConfig, tables: PriceTables, batch: int) -> None:
        self._original = config.actions == "original"
        self._fill, self._high, self._mark = (
            table.reshape(-1) for table in (tables.fill, tables.high, tables.mark)
        )
        self._known, self._delisted = tables.known.reshape(-1), tables.delisted.reshape(-1)
        self._tables = tables
        self._batch, self._symbols = batch, tables.symbols
        self._rows = np.arange(batch)
        self._complete_day = tables.complete
        self._slots = ceil(1.0 / config.position_fraction - 1e-9)
        self._max_new = 1 if self._original else config.max_new_positions
        self._threshold = config.threshold
        self._target_low, self._target_high = (
            ORIGINAL_TARGETS if self._original else (config.target_low, config.target_high)
        )
        self._max_holding_days = config.max_holding_days
        self._same_close = config.target_fill == "same_close"
        self._costs = CostModel.of(config)
        self._delisting_penalty = config.delisting_penalty
        self.log: TradeLog | None = None

    @property
    def action_shape(self) -> tuple[int, ...]:
        return (self._symbols, 2)

    @property
    def action_bounds(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Coefficient in [-1, 1]; sale target in [0, 1], see `sale_target`."""
        low = np.tile(np.array([-1.0, 0.0], np.float32), (self._symbols, 1))
        return low, np.ones_like(low)

    def sale_target(self, action: FloatArray) -> FloatArray:
        """Gain at which to sell, for a [0, 1] action: geometric between low and high; linear in `original`."""
        position = np.clip(action, 0.0, 1.0)
        low, high = self._target_low, self._target_high
        if self._original:
            return low + (high - low) * position
        return low * (high / low) ** position

    def advance(self, books: Portfolios, action: npt.NDArray[np.floating], live: BoolArray | None) -> Ledger:
        """Carries the live portfolios (all when None) over one day; action [B, N, 2]."""
        day = np.minimum(books.day + 1, self._tables.days - 1)
        ledger = Ledger.blank(self._batch, self._symbols)
        coefficient = np.clip(action[:, :, 0], -1.0, 1.0).astype(np.float64)

        carried = self._carried(books, day, live)
        before = books.value.reshape(-1)[carried.cell]
        self._credit(books, ledger, carried, before, self._tables.overnight[day], carried.at_fill)
        gone = self._leave_at_fill(books, ledger, carried, coefficient)
        kept = carried.subset(~gone)
        opened = self._open(books, ledger, coefficient, action[:, :, 1], day, carried, kept, live)
        self._until_close(books, ledger, kept + opened, day)
        return ledger

    def _credit(
        self,
        books: Portfolios,
        ledger: Ledger,
        cells: _Cells,
        before: FloatArray,
        equal_weight: FloatArray,
        after: FloatArray,
    ) -> None:
        """Books the change of value of some cells; their contribution is what they gained above equal weight."""
        ledger.pnl += self._per_row(cells.row, after - before)
        excess = after - before * (1.0 + equal_weight[cells.row])
        ledger.contribution.reshape(-1)[cells.cell] += (
            excess / np.maximum(books.equity, SMALLEST_EQUITY)[cells.row]
        )

    def _charge(
        self,
        books: Portfolios,
        ledger: Ledger,
        cells: _Cells,
        traded: FloatArray,
        cost: FloatArray,
        side: int,
        reason: IntArray | str,
    ) -> None:
        """Books the trade of some cells; `side` is 1 for bought and -1 for sold."""
        ledger.traded += self._per_row(cells.row, traded)
        ledger.costs += self._per_row(cells.row, cost)
        ledger.contribution.reshape(-1)[cells.cell] -= (
            cost / np.maximum(books.equity, SMALLEST_EQUITY)[cells.row]
        )
        if self.log is not None:
            day, symbol = cells.quote // self._symbols, cells.cell % self._symbols
            self.log.add(day, cells.row, symbol, side * cells.shares, traded, cost, reason)

    def _per_row(self, row: IntArray, amount: FloatArray) -> FloatArray:
        """Sum by portfolio, [K] -> [B]; added in the order given, so that it does not depend on B."""
        sums: FloatArray = np.bincount(row, amount, self._batch).astype(np.float64, copy=False)
        return sums

    def _carried(self, books: Portfolios, day: IntArray, live: BoolArray | None) -> _Cells:
        held = books.shares > 0.0
        if live is not None:
            held &= live[:, None]
        cell = np.flatnonzero(held)
        row = cell // self._symbols
        quote = cell + ((day - self._rows) * self._symbols)[row]
        shares = books.shares.reshape(-1)[cell]
        return _Cells(cell, row, quote, shares, shares * self._fill[quote])

    def _leave_at_fill(
        self, books: Portfolios, ledger: Ledger, held: _Cells, coefficient: FloatArray
    ) -> BoolArray:
        """Sells what the agent rejects or what has closed at its target, and writes off what is delisted; returns which
        of the held cells went."""
        delisted, known = self._delisted[held.quote], self._known[held.quote]
        rejected = reached = np.zeros_like(delisted)
        if not self._original:
            rejected = known & (coefficient.reshape(-1)[held.cell] < 0.0)
        if not self._same_close:
            last_close = self._mark[held.quote - self._symbols]
            reached = known & (last_close >= books.target.reshape(-1)[held.cell])
        gone: BoolArray = delisted | rejected | reached
        if gone.any():
            leaving = held.subset(gone)
            value = leaving.at_fill
            cost = np.where(delisted[gone], value * self._delisting_penalty, self._costs.each(value))
            why = np.select([delisted[gone], reached[gone]], [DELISTED, TARGET], REJECTED)
            self._sell(books, ledger, leaving, value, cost, why)
        return gone

    def _open(
        self,
        books: Portfolios,
        ledger: Ledger,
        coefficient: FloatArray,
        sale_target: npt.NDArray[np.floating],
        day: IntArray,
        carried: _Cells,
        kept: _Cells,
        live: BoolArray | None,
    ) -> _Cells:
        """Buys the symbols with the largest coefficients, but none that was just sold; returns the new cells."""
        free = self._slots - np.bincount(kept.row, minlength=self._batch)
        allowed = (books.day < books.last_decision) & (free > 0)
        if live is not None:
            allowed &= live
        row, symbol = self._wanted(coefficient, day, carried, allowed, free)
        count = np.bincount(row, minlength=self._batch)
        share = np.divide(1.0, free, out=np.zeros(self._batch), where=count > 0)
        stake = self._costs.affordable(books.cash * share)[row]
        books.cash *= 1.0 - count * share

        cell, quote = row * self._symbols + symbol, day[row] * self._symbols + symbol
        fill = self._fill[quote]
        new = _Cells(cell, row, quote, stake / fill, stake)
        books.shares.reshape(-1)[cell] = new.shares
        books.entry.reshape(-1)[cell] = fill
        books.target.reshape(-1)[cell] = fill * (
            1.0 + self.sale_target(sale_target[row, symbol].astype(float))
        )
        books.entry_day.reshape(-1)[cell] = day[row]
        books.coefficient.reshape(-1)[cell] = coefficient[row, symbol]
        ledger.opened += count
        self._charge(books, ledger, new, stake, self._costs.each(stake), 1, "order")
        return new

    def _wanted(
        self, coefficient: FloatArray, day: IntArray, carried: _Cells, allowed: BoolArray, free: IntArray
    ) -> tuple[IntArray, IntArray]:
        """(row, symbol) of the positions to open."""
        if self._original:
            # The original looks at one symbol only, the largest coefficient of all: held already, nothing happens.
            symbol = coefficient.argmax(axis=1)
            best = coefficient[self._rows, symbol]
            held = np.zeros(coefficient.size, np.bool_)
            held[carried.cell] = True
            blocked = held[self._rows * self._symbols + symbol] | ~self._tables.known[day, symbol]
            row = np.flatnonzero(allowed & (best >= self._threshold) & ~blocked)
            return row, symbol[row]
        score = coefficient.copy()
        score.reshape(-1)[carried.cell] = -np.inf
        if not self._complete_day[day].all():
            score[~self._tables.known[day]] = -np.inf
        rows, symbols = [], []
        for position in range(self._max_new):
            symbol = score.argmax(axis=1)
            row = np.flatnonzero(allowed & (free > position) & (score[self._rows, symbol] > self._threshold))
            if row.size == 0:
                break
            rows.append(row)
            symbols.append(symbol[row])
            score[row, symbol[row]] = -np.inf
        if not rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(rows), np.concatenate(symbols)

    def _until_close(self, books: Portfolios, ledger: Ledger, held: _Cells, day: IntArray) -> None:
        """Targets and the time limit; then everything left is valued at the close."""
        mark = self._mark[held.quote]
        target = books.target.reshape(-1)[held.cell]
        hit = self._high[held.quote] >= target
        if self._same_close:
            hit |= self._known[held.quote] & (mark >= target)
        age = day[held.row] - books.entry_day.reshape(-1)[held.cell]
        leaves = hit | ((age >= self._max_holding_days) & self._known[held.quote])
        price = np.where(hit, np.maximum(target, self._fill[held.quote]), mark)
        value = held.shares * price
        self._credit(books, ledger, held, held.at_fill, self._tables.intraday[day], value)
        books.value.reshape(-1)[held.cell] = value
        if leaves.any():
            sold = value[leaves]
            why = np.where(hit[leaves], TARGET, TIME_LIMIT)
            self._sell(books, ledger, held.subset(leaves), sold, self._costs.each(sold), why)

    def _sell(
        self,
        books: Portfolios,
        ledger: Ledger,
        cells: _Cells,
        value: FloatArray,
        cost: FloatArray,
        reason: IntArray,
    ) -> None:
        books.cash += self._per_row(cells.row, value - cost)
        paid = self._costs.paid(cells.shares * books.entry.reshape(-1)[cells.cell])
        gain_percent = 100.0 * (np.divide(value - cost, paid, out=np.ones_like(paid), where=paid > 0.0) - 1.0)
        ledger.realised += self._per_row(cells.row, books.coefficient.reshape(-1)[cells.cell] * gain_percent)
        self._charge(books, ledger, cells, value, cost, -1, reason)
        for book in (books.shares, books.value):
            book.reshape(-1)[cells.cell] = 0.0
