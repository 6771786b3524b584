"""n portfolios on one core as a Gymnasium vector environment."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading.core import TradingCore
from eigen2.envs.trading.env import (
    Action,
    ObservationDict,
    action_space,
    as_dict,
    draw_episode,
    observation_space,
    step_info,
)
from eigen2.envs.trading.episodes import episode_starts
from eigen2.market.data import MarketData


class TradingVectorEnv(VectorEnv[ObservationDict, Action, npt.NDArray[Any]]):
    """Equal, number for number, to n `TradingEnv` in a `SyncVectorEnv`.

    Autoreset is next-step: the step after a terminated one ignores that portfolio's action, starts its next episode
    and returns the first observation with reward 0. Seed s gives portfolio i the seed s + i.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self, market: MarketData, config: TradingConfig, num_envs: int = 1, split: str = "train"
    ) -> None:
        episode_starts(market, config, split)
        self.core = TradingCore(market, config, num_envs)
        self.num_envs = num_envs
        self.split = split
        self.single_observation_space = observation_space(self.core)
        self.single_action_space = action_space(self.core)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._generators = [seeding.np_random(None)[0] for _ in range(num_envs)]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObservationDict, dict[str, Any]]:
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        for index, own in enumerate(seeds or ()):
            if own is not None:
                self._generators[index] = seeding.np_random(own)[0]
        self._begin(np.arange(self.num_envs), options)
        return as_dict(self.core.observe()), _masked({"equity": self.core.equity.copy()}, self._all())

    def step(
        self, actions: Action
    ) -> tuple[
        ObservationDict, npt.NDArray[Any], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]
    ]:
        finished = self.core.done
        step = self.core.step(actions)
        observation, terminated, info = step.observation, step.terminated, step_info(step)
        if finished.any():
            self._begin(np.flatnonzero(finished), None)
            observation, terminated = self.core.observe(), self.core.done
            info["equity"] = self.core.equity.copy()
        return as_dict(observation), step.reward, terminated, ~self._all(), _masked(info, self._all())

    def _begin(self, rows: npt.NDArray[np.int64], options: dict[str, Any] | None) -> None:
        episodes = [draw_episode(self.core, self.split, self._generators[row], options) for row in rows]
        self.core.reset([start for start, _ in episodes], [days for _, days in episodes], rows)

    def _all(self) -> npt.NDArray[np.bool_]:
        return np.ones(self.num_envs, np.bool_)


def _masked(info: dict[str, Any], present: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Gymnasium's form of vector infos: beside each entry, which environments it holds for."""
    return {**info, **{f"_{name}": present for name in info}}
