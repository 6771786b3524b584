"""The books of B portfolios in lock step, and what one day did to them."""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from eigen2.market.data import FloatArray

IntArray = npt.NDArray[np.int64]

START_EQUITY = 1.0
SMALLEST_EQUITY = 1e-12
"""Keeps logarithms and ratios finite when delisting penalties eat everything."""


@dataclass
class Portfolios:
    """Everything that changes from day to day. One row per portfolio; N tradable symbols."""

    day: IntArray
    """[B] the day whose close is known; decisions taken on it fill on the next."""
    start: IntArray
    """[B] first decision day."""
    last_decision: IntArray
    """[B] first day on which nothing may be opened any more."""
    end: IntArray
    """[B] last day; the episode is over when `day` reaches it."""
    cash: FloatArray
    """[B]"""
    equity: FloatArray
    """[B] cash + holdings at the last mark."""
    pnl: FloatArray
    """[B] gains since the start at quoted prices: start + pnl - costs = equity."""
    costs: FloatArray
    """[B] fees, slippage and delisting penalties since the start."""
    shares: FloatArray
    """[B, N]"""
    value: FloatArray
    """[B, N] shares at the last mark."""
    entry: FloatArray
    """[B, N] quoted price of the entry; this and the next three are for orders and original."""
    target: FloatArray
    """[B, N] price at which a position is sold."""
    entry_day: IntArray
    """[B, N] day of the entry."""
    coefficient: FloatArray
    """[B, N] coefficient that opened the position."""

    @classmethod
    def allocate(cls, batch: int, symbols: int) -> "Portfolios":
        def rows() -> FloatArray:
            return np.zeros(batch)

        def cells() -> FloatArray:
            return np.zeros((batch, symbols))

        def days() -> IntArray:
            return np.zeros(batch, np.int64)

        return cls(
            day=days(),
            start=days(),
            last_decision=days(),
            end=days(),
            cash=rows(),
            equity=rows(),
            pnl=rows(),
            costs=rows(),
            shares=cells(),
            value=cells(),
            entry=cells(),
            target=cells(),
            entry_day=np.zeros((batch, symbols), np.int64),
            coefficient=cells(),
        )

    def rewind(self, rows: IntArray, start: IntArray, trading_days: IntArray, settlement_days: int) -> None:
        """Back to cash on day `start`, for the given rows."""
        for field in fields(self):
            getattr(self, field.name)[rows] = 0
        self.day[rows] = self.start[rows] = start
        self.last_decision[rows] = start + trading_days
        self.end[rows] = start + trading_days + settlement_days
        self.cash[rows] = self.equity[rows] = START_EQUITY


@dataclass
class Ledger:
    """What one day did. Money is in units of the start equity; frozen portfolios have zeros."""

    pnl: FloatArray
    """[B] gains at quoted prices."""
    costs: FloatArray
    """[B]"""
    traded: FloatArray
    """[B] quoted value bought and sold."""
    opened: IntArray
    """[B] positions opened."""
    realised: FloatArray
    """[B] sum over closed positions of coefficient x net gain in per cent (orders and original)."""
    contribution: npt.NDArray[np.float32]
    """[B, N] each symbol's profit above equal weight, minus its costs, as a share of the equity before."""

    @classmethod
    def blank(cls, batch: int, symbols: int) -> "Ledger":
        return cls(
            pnl=np.zeros(batch),
            costs=np.zeros(batch),
            traded=np.zeros(batch),
            opened=np.zeros(batch, np.int64),
            realised=np.zeros(batch),
            contribution=np.zeros((batch, symbols), np.float32),
        )
