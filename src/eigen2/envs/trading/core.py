"""The vectorised trading core: B portfolios over one market, stepped in lock step in numpy.

Timeline: an action decided on day t, with data up to the close of t, fills on day t + 1 (at the open when known,
else at the close). The step ends at the close of t + 1, where holdings are valued; the reward is the change of log
equity, and the observation shows day t + 1. Nothing in a step depends on a price after t + 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading.observation import Observation, observe
from eigen2.envs.trading.orders import OrderRules
from eigen2.envs.trading.portfolios import SMALLEST_EQUITY, IntArray, Ledger, Portfolios
from eigen2.envs.trading.price_tables import price_tables
from eigen2.envs.trading.trades import TradeLog
from eigen2.envs.trading.weights import WeightRules
from eigen2.market.data import FloatArray, MarketData


@dataclass(frozen=True)
class TradingStep:
    """What one step reports; arrays are fresh and may be kept."""

    observation: Observation
    reward: FloatArray
    """[B]"""
    terminated: npt.NDArray[np.bool_]
    """[B] the episode is over; such a portfolio stays frozen, with reward 0, until it is reset."""
    contribution: npt.NDArray[np.float32]
    """[B, N] each symbol's profit above equal weight minus its costs, as a share of the equity before the step."""
    equity: FloatArray
    """[B] at the close."""
    turnover: FloatArray
    """[B] value bought and sold, as a share of the equity before the step."""
    costs: FloatArray
    """[B] fees, slippage and penalties of the day, in units of the start equity."""
    opened: IntArray
    """[B] positions opened."""


class TradingCore:
    """One object serves a whole run: `reset` rewinds it.

    Actions, as float arrays: `orders` and `original` [B, N, 2] = (coefficient in [-1, 1], sale target in [0, 1]);
    `weights` [B, N + 1] logits in [-10, 10], the last one cash. Values outside are taken as the nearest bound.
    """

    def __init__(self, market: MarketData, config: TradingConfig, batch: int) -> None:
        if batch < 1:
            raise ValueError(f"batch must be at least 1, not {batch}")
        self.market = market
        self.config = config
        self.batch = batch
        self.symbols = len(market.tradable)
        self.settlement_days = 0 if config.actions == "weights" else config.settlement_days
        self._tables = price_tables(market)
        rules = WeightRules if config.actions == "weights" else OrderRules
        self._rules: WeightRules | OrderRules = rules(config, self._tables, batch)
        self._books = Portfolios.allocate(batch, self.symbols)

    @property
    def episode_steps(self) -> int:
        """Steps of an episode of the configured length."""
        return self.config.trading_days + self.settlement_days

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of one portfolio's action."""
        return self._rules.action_shape

    @property
    def action_bounds(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """(low, high) of one portfolio's action."""
        return self._rules.action_bounds

    @property
    def cash(self) -> FloatArray:
        """[B]"""
        return self._books.cash

    @property
    def equity(self) -> FloatArray:
        """[B] cash + holdings at the last close."""
        return self._books.equity

    @property
    def shares(self) -> FloatArray:
        """[B, N]"""
        return self._books.shares

    @property
    def books(self) -> Portfolios:
        """All of the accounting, to be read."""
        return self._books

    @property
    def done(self) -> npt.NDArray[np.bool_]:
        """[B] the episode is over."""
        return self._books.day >= self._books.end

    def record_trades(self) -> TradeLog:
        """From now on every trade is written into the log that is returned."""
        self._rules.log = TradeLog()
        return self._rules.log

    @property
    def nbytes(self) -> int:
        """Of the price tables; portfolios are small."""
        return self._tables.nbytes

    def reset(
        self,
        starts: npt.ArrayLike,
        trading_days: npt.ArrayLike | None = None,
        rows: npt.ArrayLike | None = None,
        *,
        beyond: bool = False,
    ) -> Observation:
        """Starts episodes on the decision days `starts` [B] (or [len(rows)], for some portfolios only).

        With `beyond` an episode may end after the market's last day: the caller stops in time.
        """
        chosen = np.arange(self.batch) if rows is None else np.asarray(rows, np.int64)
        start = np.broadcast_to(np.asarray(starts, np.int64), chosen.shape)
        length = self.config.trading_days if trading_days is None else trading_days
        days = np.broadcast_to(np.asarray(length, np.int64), chosen.shape)
        last = start + days + self.settlement_days
        final = start if beyond else last
        if days.size and (days.min() < 1 or start.min() < 0 or final.max() >= self._tables.days):
            raise ValueError(
                f"episodes from days {start.min()}..{start.max()} with {days.min()}..{days.max()} trading days and "
                f"{self.settlement_days} settlement days do not fit into the {self._tables.days} days of the market"
            )
        self._books.rewind(chosen, start, days, self.settlement_days)
        return self.observe()

    def renew(self, trading_days: int) -> Observation:
        """Another episode for every portfolio, from where it stands: holdings stay, only the clock starts again."""
        books = self._books
        books.start[:] = books.day
        books.last_decision[:] = books.day + trading_days
        books.end[:] = books.last_decision + self.settlement_days
        return self.observe()

    def observe(self) -> Observation:
        return observe(
            self._books, self.config.max_holding_days, weights_only=self.config.actions == "weights"
        )

    def step(self, action: npt.ArrayLike) -> TradingStep:
        checked = self._checked(action)
        books = self._books
        done = self.done
        live = ~done if done.any() else None
        equity_before = books.equity.copy()
        idle_before = None if self.config.reward == "log_equity" else self._idle()

        ledger = self._rules.advance(books, checked, live)

        books.pnl += ledger.pnl
        books.costs += ledger.costs
        np.add(books.cash, books.value.sum(axis=1), out=books.equity, where=True if live is None else live)
        reward = self._reward(ledger, equity_before, idle_before, live)
        books.day += 1 if live is None else live
        return TradingStep(
            observation=self.observe(),
            reward=reward,
            terminated=self.done,
            contribution=ledger.contribution,
            equity=books.equity.copy(),
            turnover=ledger.traded / np.maximum(equity_before, SMALLEST_EQUITY),
            costs=ledger.costs,
            opened=ledger.opened,
        )

    def _reward(
        self,
        ledger: Ledger,
        equity_before: FloatArray,
        idle_before: npt.NDArray[np.bool_] | None,
        live: npt.NDArray[np.bool_] | None,
    ) -> FloatArray:
        books = self._books
        if idle_before is None:
            after, before = (np.maximum(equity, SMALLEST_EQUITY) for equity in (books.equity, equity_before))
            return np.log(after / before)
        # Nothing can be opened in settlement: idleness there is no fault.
        idle = idle_before & self._idle() & (books.day < books.last_decision)
        if live is not None:
            idle &= live
        return ledger.realised - self.config.inaction_penalty * idle

    def _idle(self) -> npt.NDArray[np.bool_]:
        """[B] no position is held."""
        return np.asarray((self._books.shares == 0.0).all(axis=1))

    def _checked(self, action: npt.ArrayLike) -> npt.NDArray[np.floating]:
        array = np.asarray(action)
        shape = (self.batch, *self.action_shape)
        if array.shape != shape:
            raise ValueError(f"action has shape {array.shape}, but {self.config.actions} needs {shape}")
        if not np.issubdtype(array.dtype, np.floating):
            raise ValueError(f"action has dtype {array.dtype}, but a float array is needed")
        if not np.isfinite(array).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise ValueError(f"action is {array[where]} at {where}: every value must be finite")
        return array

    def state_dict(self) -> dict[str, Any]:
        """Copies of all arrays that change; with it a core of the same market and config continues exactly."""
        return {field.name: getattr(self._books, field.name).copy() for field in fields(self._books)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        names = {field.name for field in fields(self._books)}
        if names != set(state):
            raise ValueError(f"trading state has {sorted(set(state) ^ names)} missing or unknown")
        for name in names:
            book, stored = getattr(self._books, name), np.asarray(state[name])
            if stored.shape != book.shape or stored.dtype != book.dtype:
                raise ValueError(
                    f"trading state {name!r} is {stored.dtype} {stored.shape}, not {book.dtype} {book.shape}"
                )
            book[...] = stored
