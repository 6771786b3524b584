"""One vector in, one vector out: the trading environment for learners that know nothing of markets.

`FlatObservation` wraps the environment for training; `flat_policy` turns what was learned into a market policy for
backtests. Both translate by the same `FlatSpaces`, so an agent sees and does the same in both.
"""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading.core import TradingCore
from eigen2.envs.trading.env import Action, ObservationDict, TradingEnv
from eigen2.envs.trading.observation import ACCOUNT_FEATURES, POSITION_FEATURES, Observation
from eigen2.market.data import MarketData

Vectors = npt.NDArray[np.float32]


class FlatSpaces:
    """Observations [B, O]: of the observed day the features of all S symbols [S, F] (zero where unknown) and which are
    known [S]; then positions [N, 4] of the N tradable symbols and the account [5]. Actions [B, A] in [-1, 1], from
    the lower bound of the core's action space to the upper."""

    def __init__(self, core: TradingCore) -> None:
        self._features, self._known = core.market.features, core.market.mask
        _, symbols, features = self._features.shape
        sizes = (symbols * features, symbols, core.symbols * len(POSITION_FEATURES), len(ACCOUNT_FEATURES))
        self._ends = np.cumsum(sizes)
        low, high = core.action_bounds
        self._centre: Vectors = (low + high) / np.float32(2)
        self._half: Vectors = (high - low) / np.float32(2)

    @property
    def observation_size(self) -> int:
        return int(self._ends[-1])

    @property
    def action_size(self) -> int:
        return self._centre.size

    def encode(self, observation: Observation) -> Vectors:
        """Fresh vectors [B, O]."""
        batch, day = len(observation.day), observation.day
        features, known, positions, _ = self._ends
        out = np.empty((batch, self.observation_size), np.float32)
        out[:, :features] = self._features[day].reshape(batch, -1)
        out[:, features:known] = self._known[day]
        out[:, known:positions] = observation.positions.reshape(batch, -1)
        out[:, positions:] = observation.account
        return out

    def decode(self, actions: npt.ArrayLike) -> Vectors:
        """Actions [B, A] -> the core's [B, ...]; values outside [-1, 1] are taken as the nearest bound."""
        inside = np.clip(np.asarray(actions, np.float32), -1.0, 1.0)
        return self._centre + self._half * inside.reshape(-1, *self._centre.shape)


class FlatObservation(gymnasium.Wrapper[Any, Any, Any, Any]):
    """`eigen2/Trading-v0` with a float32 vector as observation and as action, whatever its own observation is."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        trading = env.unwrapped
        if not isinstance(trading, TradingEnv):
            raise TypeError(f"FlatObservation wraps eigen2/Trading-v0, not {type(trading).__name__}")
        self._core = trading.core
        self.spaces = FlatSpaces(trading.core)
        self.observation_space = spaces.Box(-np.inf, np.inf, (self.spaces.observation_size,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (self.spaces.action_size,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vectors, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._flat(observation), info

    def step(self, action: Action) -> tuple[Vectors, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(self.spaces.decode(action[None])[0])
        return self._flat(observation), reward, terminated, truncated, info

    def _flat(self, seen: ObservationDict) -> Vectors:
        batch = (
            Observation(seen["day"], seen["positions"][None], seen["account"][None])
            if "day" in seen
            else self._core.observe()
        )
        vector: Vectors = self.spaces.encode(batch)[0]
        return vector


def flat_policy(
    act: Callable[[Vectors], npt.ArrayLike], core: TradingCore
) -> Callable[[Observation, MarketData, TradingConfig], Vectors]:
    """The market policy of a function from observations [B, O] to actions [B, A], as trained in `FlatObservation`.

    `core` is any core of the same market and rules.
    """
    flat = FlatSpaces(core)

    def policy(observation: Observation, market: MarketData, config: TradingConfig) -> Vectors:
        return flat.decode(act(flat.encode(observation)))

    return policy
