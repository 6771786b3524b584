"""Champions of markets and of control tasks: what `eigen2.load` gives and `eigen2 decide` asks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.control.environments import Task, in_bounds
from eigen2.envs.trading import Observation
from eigen2.errors import ConfigError
from eigen2.evaluation.decision import PolicyOf, decide
from eigen2.evaluation.film import film
from eigen2.evaluation.result import Champion, Decision, Footage, Question
from eigen2.market.data import MarketData

Vectors = npt.NDArray[np.float32]


class MarketChampion(Champion):
    def __init__(self, market: MarketData, config: TradingConfig, policy_of: PolicyOf) -> None:
        self.market, self.config, self._policy_of = market, config, policy_of
        self._policy = policy_of(market)

    def act(self, observation: Mapping[str, Any]) -> npt.NDArray[Any]:
        """Observations of `eigen2/Trading-v0`: positions and account, and either the day, counted from the first of
        `market`, or the window of features that ends with it."""
        if "day" not in observation:
            return self._act_on_window(observation)
        single = np.asarray(observation["positions"]).ndim == 2
        day = np.asarray(observation["day"], np.int32).reshape(-1)
        seen = _observation(day, observation)
        action = self._policy(seen, self.market, self.config)
        return np.asarray(action[0] if single else action)

    def _act_on_window(self, observation: Mapping[str, Any]) -> npt.NDArray[Any]:
        window = np.asarray(observation["window"], np.float32)
        if window.ndim == 4:
            rows = [{name: values[i] for name, values in observation.items()} for i in range(len(window))]
            return np.stack([self._act_on_window(row) for row in rows])
        shape = (len(window), *self.market.features.shape[1:])
        if window.shape != shape:
            raise ValueError(f"window has shape {window.shape}, but the champion looks at {shape}")
        known = observation.get("known")
        mask = np.asarray(known, np.bool_) if known is not None else (window != 0.0).any(axis=2)
        days = len(window)
        unknown = np.full((days, window.shape[1]), np.nan)
        market = replace(
            self.market, dates=np.arange(days).astype("datetime64[D]"), features=window.copy(), mask=mask,
            close=unknown, open=None, high=None, low=None, volume=None,
        )  # fmt: skip
        seen = _observation(np.array([days - 1], np.int32), observation)
        return np.asarray(self._policy_of(market)(seen, market, self.config)[0])

    def decide(self, question: Question) -> Decision:
        return decide(self.market, self.config, self._policy_of, question)


class ControlChampion(Champion):
    """`act_unit` maps observations [n, O] to actions [n, A] in [-1, 1]; `low` and `high` are the environment's bounds."""

    def __init__(
        self,
        act_unit: Callable[[Vectors], Vectors],
        observation_size: int,
        low: npt.ArrayLike,
        high: npt.ArrayLike,
        task: Task | None = None,
    ) -> None:
        self._act, self.observation_size, self.task = act_unit, observation_size, task
        self.low, self.high = np.asarray(low), np.asarray(high)

    def act(self, observation: npt.ArrayLike) -> npt.NDArray[Any]:
        given = np.asarray(observation, np.float32)
        if given.size == 0 or given.size % self.observation_size:
            raise ValueError(f"an observation has {self.observation_size} numbers, not {given.size}")
        rows = given.reshape(-1, self.observation_size)
        batch = given.ndim > 1 and given.shape[0] == len(rows) and given[0].size == self.observation_size
        action = in_bounds(self._act(rows), self.low, self.high)
        return action if batch else np.asarray(action[0])

    @property
    def can_be_filmed(self) -> bool:
        return self.task is not None

    def film(self, seconds: float, width: int, height: int, seed: int = 0) -> Footage:
        if self.task is None:
            raise ConfigError("a champion that was loaded from files has no environment; film its run.")
        return film(self.task, self._act, seconds, width, height, seed)


def _observation(day: npt.NDArray[np.int32], given: Mapping[str, Any]) -> Observation:
    positions = np.asarray(given["positions"], np.float16)
    account = np.asarray(given["account"], np.float32)
    return Observation(day, positions.reshape(len(day), *positions.shape[-2:]), account.reshape(len(day), -1))
