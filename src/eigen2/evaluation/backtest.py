"""Playing a policy through the real trading core over a whole split, or over fixed windows of it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import Observation, TradingCore
from eigen2.errors import ConfigError
from eigen2.market.data import FloatArray, MarketData, Split

Policy = Callable[[Observation, MarketData, TradingConfig], npt.NDArray[np.floating]]
"""What to do on seeing an observation of B portfolios: an action [B, ...] of the core's action space."""


@dataclass(frozen=True)
class Strategy:
    """A policy and the rules under which it plays; costs and days are always those of the market it is evaluated on."""

    name: str
    config: TradingConfig
    policy: Policy


@dataclass(frozen=True)
class Backtest:
    """Daily record of B portfolios; T steps from the first decision to the last close."""

    log_returns: FloatArray
    """[B, T] change of log equity."""
    turnover: FloatArray
    """[B, T] value bought plus value sold, as a share of the equity before the step."""
    opened: npt.NDArray[np.int64]
    """[B, T] positions opened."""
    weights: npt.NDArray[np.float32]
    """[B, T, N] share of equity in each symbol at the close."""

    periods_per_year: int
    """Of the market, for annual figures."""

    @property
    def equity(self) -> FloatArray:
        """[B, T + 1] from 1."""
        path = np.concatenate(
            [np.zeros((len(self.log_returns), 1)), np.cumsum(self.log_returns, axis=1)], axis=1
        )
        return np.asarray(np.exp(path))

    @property
    def annual_turnover(self) -> FloatArray:
        """[B] value bought plus value sold in a year, in units of equity."""
        return np.asarray(self.turnover.mean(axis=1) * self.periods_per_year)

    @property
    def exposure(self) -> FloatArray:
        """[B] mean share of equity that is invested."""
        return np.asarray(self.weights.sum(axis=2).mean(axis=1, dtype=np.float64))

    @property
    def trades(self) -> npt.NDArray[np.int64]:
        """[B] positions opened in all."""
        return np.asarray(self.opened.sum(axis=1))


def run_policy(core: TradingCore, policy: Policy, split: Split) -> Backtest:
    """One long episode over the whole split: the first decision on its first day, the last close on its last.

    Settlement days are the last ones of the split, so that every order is closed inside it.
    """
    steps = split.days - 1
    trading_days = steps - core.settlement_days
    if trading_days < 1:
        raise ConfigError(
            f"{split.name} has {split.days} days, too few for {core.settlement_days} settlement days; "
            f"raise env.{split.name}_days or lower env.settlement_days"
        )
    return _play(core, policy, np.full(core.batch, split.start), trading_days)


def play(market: MarketData, strategy: Strategy, split: Split, draws: int = 1) -> Backtest:
    """A strategy over the whole split, `draws` times side by side."""
    return run_policy(TradingCore(market, strategy.config, draws), strategy.policy, split)


def _play(core: TradingCore, policy: Policy, starts: npt.NDArray[np.int64], trading_days: int) -> Backtest:
    observation = core.reset(starts, trading_days)
    steps = trading_days + core.settlement_days
    shape = (core.batch, steps)
    log_returns, turnover = np.empty(shape), np.empty(shape)
    opened = np.empty(shape, dtype=np.int64)
    weights = np.empty((*shape, core.symbols), dtype=np.float32)
    equity = core.equity.copy()
    for step in range(steps):
        outcome = core.step(policy(observation, core.market, core.config))
        log_returns[:, step] = np.log(outcome.equity / equity)
        turnover[:, step] = outcome.turnover
        opened[:, step] = outcome.opened
        weights[:, step] = core.books.value / outcome.equity[:, None]
        observation, equity = outcome.observation, outcome.equity
    return Backtest(log_returns, turnover, opened, weights, core.market.periods_per_year)
