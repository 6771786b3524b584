"""`eigen2/Trading-v0`: the core with one portfolio behind the Gymnasium interface."""

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pydantic import ValidationError

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading.core import TradingCore, TradingStep
from eigen2.envs.trading.episodes import episode_starts
from eigen2.envs.trading.observation import ACCOUNT_FEATURES, POSITION_FEATURES, Observation
from eigen2.errors import ConfigError
from eigen2.market.data import MarketData
from eigen2.section import value_rule

ObservationDict = dict[str, npt.NDArray[Any]]
Action = npt.NDArray[np.floating]


class TradingEnv(gymnasium.Env[Any, Any]):
    """One portfolio. `reset` draws the first decision day from `split`, or takes it from the options:
    `reset(options={"start": day, "trading_days": n})`."""

    metadata = {"render_modes": []}

    def __init__(self, market: MarketData, config: TradingConfig, split: str = "train") -> None:
        episode_starts(market, config, split)
        self.core = TradingCore(market, config, 1)
        self.split = split
        self.observation_space = observation_space(self.core)
        self.action_space = action_space(self.core)

    @property
    def market(self) -> MarketData:
        return self.core.market

    @property
    def config(self) -> TradingConfig:
        return self.core.config

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObservationDict, dict[str, Any]]:
        super().reset(seed=seed)
        start, trading_days = draw_episode(self.core, self.split, self.np_random, options)
        observation = self.core.reset(start, trading_days)
        return _first(as_dict(observation)), {"equity": float(self.core.equity[0])}

    def step(self, action: Action) -> tuple[ObservationDict, float, bool, bool, dict[str, Any]]:
        step = self.core.step(np.asarray(action)[None])
        info = _first(step_info(step))
        return _first(as_dict(step.observation)), float(step.reward[0]), bool(step.terminated[0]), False, info


def trading_config(options: dict[str, Any]) -> TradingConfig:
    try:
        return TradingConfig(**options)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "the combination of options"
        raise ConfigError(f"eigen2/Trading-v0 cannot use {name}: {value_rule(first)}") from error


def draw_episode(
    core: TradingCore, split: str, rng: np.random.Generator, options: dict[str, Any] | None
) -> tuple[int, int]:
    """(first decision day, trading days): what the options name, else drawn from the split."""
    options = options or {}
    if unknown := set(options) - {"start", "trading_days"}:
        raise ValueError(f"reset knows the options start and trading_days, not {sorted(unknown)}")
    trading_days = int(options.get("trading_days", core.config.trading_days))
    if "start" in options:
        return int(options["start"]), trading_days
    starts = episode_starts(core.market, core.config, split, trading_days)
    return int(rng.integers(starts.start, starts.stop)), trading_days


def observation_space(core: TradingCore) -> spaces.Dict:
    days = len(core.market.dates)
    return spaces.Dict(
        {
            "day": spaces.Box(0, days - 1, (1,), np.int32),
            "positions": spaces.Box(-np.inf, np.inf, (core.symbols, len(POSITION_FEATURES)), np.float16),
            "account": spaces.Box(-np.inf, np.inf, (len(ACCOUNT_FEATURES),), np.float32),
        }
    )


def action_space(core: TradingCore) -> spaces.Box:
    low, high = core.action_bounds
    return spaces.Box(low, high, dtype=np.float32)


def as_dict(observation: Observation) -> ObservationDict:
    """Arrays with the batch first, as the spaces name them."""
    return {
        "day": observation.day[:, None],
        "positions": observation.positions,
        "account": observation.account,
    }


def step_info(step: TradingStep) -> dict[str, Any]:
    return {
        "equity": step.equity,
        "turnover": step.turnover,
        "costs": step.costs,
        "opened": step.opened,
        "contribution": step.contribution,
    }


def _first(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: values[0] for name, values in batch.items()}
