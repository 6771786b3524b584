"""A Gymnasium environment by its id, refused with a sentence when our agents cannot act in it."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from difflib import get_close_matches
from typing import Any, NoReturn

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from eigen2.envs.config import GymConfig
from eigen2.errors import ConfigError, DataError, Eigen2Error, is_out_of_memory

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
        with _modules_here(config.id), _silenced() if config.id in _made else nullcontext():
            env: GymEnv = gymnasium.make(
                config.id, max_episode_steps=config.max_episode_steps, **config.kwargs
            )
    except gymnasium.error.DependencyNotInstalled as error:
        # Gymnasium's own sentence says how to install what it misses; what MuJoCo needs is an extra of ours too.
        extra = "; or pip install eigen2[control]" if "mujoco" in str(error).lower() else ""
        raise ConfigError(f"env.id={config.id} needs a package that is missing: {error}{extra}") from error
    except TypeError as error:
        # Whatever else is wrong inside the environment is not about the settings.
        if "argument" not in str(error) or not config.kwargs:
            refuse_fault(config.id, "its constructor", error)
        raise ConfigError(f"env.id={config.id} does not take env.kwargs={config.kwargs}: {error}") from error
    except ModuleNotFoundError as error:
        module = config.id.partition(":")[0]
        # Gymnasium raises another one, which names the module of the id whatever was missing.
        missing = getattr(error.__cause__, "name", None) or error.name
        if ":" in config.id and f"{module}.".startswith(f"{missing}."):
            raise ConfigError(
                f"env.id={config.id} asks for the module {module}, which is neither installed nor a file in {os.getcwd()}"
            ) from error
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
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's own code
        refuse_fault(config.id, "its constructor", error)
    try:
        _check_spaces(config.id, env)
    except ConfigError:
        env.close()
        raise
    _made.add(config.id)
    return env


def refuse_fault(name: str, where: str, error: Exception | SystemExit) -> NoReturn:
    """Raise what an environment raised, in one sentence that names it."""
    if isinstance(error, Eigen2Error) or is_out_of_memory(error):
        raise error
    raise DataError(
        f"env.id={name} failed in {where}: {type(error).__name__}: {error}; --debug shows the traceback"
    ) from error


def drawn_gym(config: GymConfig) -> GymEnv:
    """The same, so that it can be drawn without a screen."""
    from eigen2.envs.control.camera import choose_renderer

    # Read by Gymnasium when it begins to draw.
    with suppress(ConfigError):
        os.environ.setdefault("MUJOCO_GL", choose_renderer())
    kwargs = {**config.kwargs, "render_mode": "rgb_array"}
    return make_gym(config.model_copy(update={"kwargs": kwargs}))


def rendered(env: GymEnv, name: str) -> npt.NDArray[np.uint8]:
    try:
        frame: Any = env.render()
    except gymnasium.error.DependencyNotInstalled as error:
        raise ConfigError(f"env.id={name} draws itself with a package that is missing: {error}") from error
    except (ImportError, AttributeError, RuntimeError, OSError) as error:
        from eigen2.envs.control.camera import NO_RENDERER

        raise ConfigError(f"env.id={name} cannot be drawn ({error}); {NO_RENDERER}") from error
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise ConfigError(f"env.id={name} draws no pictures (render_mode rgb_array).")
    return np.ascontiguousarray(frame[:, :, :3], np.uint8)


@contextmanager
def _modules_here(name: str) -> Iterator[None]:
    """`module:Id-v0` may name a module in the working directory, as it may where Python itself is asked for one."""
    if ":" not in name:
        yield
        return
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path.remove(os.getcwd())


@contextmanager
def _silenced() -> Iterator[None]:
    """Gymnasium and MuJoCo repeat their warnings about an environment with every copy that is made."""
    with warnings.catch_warnings(), _silent_mujoco():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _silent_mujoco() -> Iterator[None]:
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
            f"env.id={name} has the action space {action}: Eigen2's agents need continuous actions (Box); "
            "choose an environment with continuous actions, e.g. Pendulum-v1"
        )
    if not np.issubdtype(action.dtype, np.floating) or not action.is_bounded():
        raise ConfigError(
            f"env.id={name} has the action space {action}: a Box of floats with finite bounds is needed"
        )
    with np.errstate(over="ignore"):
        spans = action.high - action.low
    if not np.isfinite(spans).all():
        raise ConfigError(
            f"env.id={name} has the action space {action}: high - low must be finite in {action.dtype}"
        )
    if not isinstance(observation, spaces.Box):
        raise ConfigError(
            f"env.id={name} has the observation space {observation}: a Box is needed; register the environment wrapped, "
            "e.g. in gymnasium.wrappers.FlattenObservation"
        )
    if 0 in (*action.shape, *observation.shape):
        raise ConfigError(
            f"env.id={name} has the observation space {observation} and the action space {action}: neither may be empty"
        )
