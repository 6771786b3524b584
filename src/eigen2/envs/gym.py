"""A Gymnasium environment by its id, refused with a sentence when our agents cannot act in it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from eigen2.envs.config import GymConfig
from eigen2.errors import ConfigError

GymEnv = gymnasium.Env[Any, Any]
_made: set[str] = set()
"""Environments whose simulator has already said what it has to say about their model."""


def make_gym(config: GymConfig) -> GymEnv:
    """The environment `config.id`, with a bounded Box of actions and a Box of observations."""
    if config.id == "eigen2/Trading-v0":
        raise ConfigError(
            "env.id=eigen2/Trading-v0 is env=trading here; its settings are env.data, env.actions, ..."
        )
    try:
        with _silent_mujoco() if config.id in _made else nullcontext():
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
    _made.add(config.id)
    return env


@contextmanager
def _silent_mujoco() -> Iterator[None]:
    """MuJoCo repeats its warnings about a model with every copy that is made."""
    mujoco: Any = sys.modules.get("mujoco")
    if mujoco is None:
        yield
        return
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


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
