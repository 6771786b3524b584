"""Any Gymnasium environment with continuous actions, n copies of it in lock step."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from eigen2.envs.config import GymConfig
from eigen2.errors import ConfigError, DataError

GymEnv = gymnasium.Env[Any, Any]


def make_gym(config: GymConfig) -> GymEnv:
    """The environment `config.id`, refused with a sentence when our agents cannot act in it."""
    try:
        env: GymEnv = gymnasium.make(config.id, max_episode_steps=config.max_episode_steps)
    except gymnasium.error.DependencyNotInstalled as error:
        raise ConfigError(
            f"env.id={config.id} needs a package that is missing ({error}): pip install eigen2[control]"
        ) from error
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"env.id={config.id} needs a Python module that is not installed ({str(error).splitlines()[0]}); "
            "pip install eigen2[control] brings what MuJoCo tasks need"
        ) from error
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
        raise ConfigError(
            f"env.id={config.id} is not a registered environment{_nearest(config.id)}"
        ) from error
    except gymnasium.error.Error as error:
        raise ConfigError(f"env.id={config.id} cannot be made: {error}") from error
    try:
        _check_spaces(config.id, env)
    except ConfigError:
        env.close()
        raise
    return env


def _nearest(name: str) -> str:
    known = {known.lower(): known for known in gymnasium.registry}
    match = get_close_matches(name.lower(), known, n=1, cutoff=0.0)
    return f"; the nearest is {known[match[0]]}" if match else ""


def _check_spaces(name: str, env: GymEnv) -> None:
    action, observation = env.action_space, env.observation_space
    if not isinstance(action, spaces.Box):
        raise ConfigError(
            f"env.id={name} has the action space {action}: agents here act in continuous spaces (Box); "
            "choose an environment with continuous actions, e.g. Pendulum-v1"
        )
    if not np.issubdtype(action.dtype, np.floating) or not action.is_bounded():
        raise ConfigError(f"env.id={name} has the action space {action}: a bounded float Box is needed")
    if not isinstance(observation, spaces.Box):
        raise ConfigError(
            f"env.id={name} has the observation space {observation}: a Box is needed; wrap it, e.g. with "
            "gymnasium.wrappers.FlattenObservation"
        )


@dataclass(frozen=True)
class GymStep:
    observation: npt.NDArray[np.float32]
    """[n, observation]"""
    reward: npt.NDArray[np.float64]
    """[n]"""
    terminated: npt.NDArray[np.bool_]
    """[n] the episode reached an end state at this step or before."""
    truncated: npt.NDArray[np.bool_]
    """[n] the episode was cut by its time limit at this step or before."""


class GymBatch:
    """n copies stepped together. Each episode is seeded by the caller, so results do not depend on n or on order.

    A finished copy stays frozen, with its last observation and reward 0, until the next `reset`.
    """

    def __init__(self, config: GymConfig, n: int) -> None:
        if n < 1:
            raise ValueError(f"a batch needs at least one environment, not {n}")
        self.config = config
        self.n = n
        self._envs = [make_gym(config) for _ in range(n)]
        action, observation = self._envs[0].action_space, self._envs[0].observation_space
        assert isinstance(action, spaces.Box)
        assert isinstance(observation, spaces.Box)
        self.action_size = int(np.prod(action.shape))
        self.observation_size = int(np.prod(observation.shape))
        self._action_space = action
        self._observation = np.zeros((n, self.observation_size), np.float32)
        self._terminated = np.zeros(n, np.bool_)
        self._truncated = np.ones(n, np.bool_)

    @property
    def done(self) -> npt.NDArray[np.bool_]:
        """[n]"""
        return self._terminated | self._truncated

    @property
    def max_episode_steps(self) -> int | None:
        """Time limit of an episode, None when it has none."""
        spec = self._envs[0].spec
        return None if spec is None else spec.max_episode_steps

    def reset(self, seeds: Sequence[int]) -> npt.NDArray[np.float32]:
        """Starts an episode in the first len(seeds) copies, one seed each; the others stay frozen. [n, observation]."""
        if not 1 <= len(seeds) <= self.n:
            raise ValueError(f"{len(seeds)} seeds for {self.n} environments")
        self._terminated[:] = False
        self._truncated[:] = True
        self._observation[:] = 0.0
        for index, seed in enumerate(seeds):
            observation, _ = self._envs[index].reset(seed=int(seed))
            self._observation[index] = self._checked(observation)
            self._truncated[index] = False
        return self._observation.copy()

    def step(self, actions: npt.NDArray[np.floating]) -> GymStep:
        """Actions in [-1, 1], [n, action], stretched onto the environment's own bounds."""
        if actions.shape != (self.n, self.action_size):
            raise ValueError(f"actions have shape {actions.shape}, not {(self.n, self.action_size)}")
        if not np.isfinite(actions).all():
            raise ValueError("actions hold NaN or infinity: every value must be finite")
        low, high = self._action_space.low, self._action_space.high
        unit = 0.5 * (np.clip(actions, -1.0, 1.0) + 1.0)
        stretched = low + unit.reshape(self.n, *low.shape) * (high - low)
        stretched = np.clip(stretched, low, high).astype(self._action_space.dtype)
        reward = np.zeros(self.n)
        for index in np.flatnonzero(~self.done):
            observation, gain, terminated, truncated, _ = self._envs[index].step(stretched[index])
            self._observation[index] = self._checked(observation)
            reward[index] = float(gain)
            self._terminated[index], self._truncated[index] = terminated, truncated
        if not np.isfinite(reward).all():
            raise DataError(f"env.id={self.config.id} returned a reward that is not finite")
        return GymStep(self._observation.copy(), reward, self._terminated.copy(), self._truncated.copy())

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _checked(self, observation: Any) -> npt.NDArray[np.float32]:
        flat = np.asarray(observation, np.float32).reshape(-1)
        if not np.isfinite(flat).all():
            raise DataError(f"env.id={self.config.id} returned an observation that is not finite")
        return flat
