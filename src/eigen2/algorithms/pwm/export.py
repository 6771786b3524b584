"""Files for those who want a policy without this package's run directory: plain tensors, safe to load.

A policy file holds the world model (its encoder is what the actor sees through), the evaluated actor, the observation
statistics, the environment's action bounds and the config they were built with; `torch.load(path, weights_only=True)`
reads it, and `load_policy` makes it act. The best policy is also there as `champion.safetensors`, for `eigen2.load`.
"""

import warnings
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError

from eigen2.algorithms.pwm.agent import Weights, policy_in, restored
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.envs.control.environments import Task, in_bounds
from eigen2.envs.control.rollout import Policy
from eigen2.errors import DamagedStateError
from eigen2.section import STORED

FORMAT = "eigen2-pwm-policy-2"
WITHOUT_BOUNDS = "eigen2-pwm-policy-1"


def policy_contents(weights: Weights, config: PWMConfig, task: Task, iteration: int) -> dict[str, Any]:
    """What a policy file holds: nested dicts of tensors, numbers and strings."""
    low, high = task.action_bounds
    return {
        "format": FORMAT,
        "action_low": torch.as_tensor(low),
        "action_high": torch.as_tensor(high),
        "task": task.name,
        "observation_size": task.observation_size,
        "action_size": task.action_size,
        "config": config.model_dump_json(),
        "iteration": iteration,
        "weights": dict(weights),
    }


def save_policy(path: Path, weights: Weights, config: PWMConfig, task: Task, iteration: int) -> None:
    torch.save(policy_contents(weights, config, task, iteration), path)


def save_checkpoint(path: Path, state: dict[str, Any], config: PWMConfig, task: Task) -> None:
    """A policy file that also holds the whole training state but the replay, its arrays as tensors."""
    contents = policy_contents(policy_in(state), config, task, int(state["iteration"]))
    torch.save({**contents, "training": _as_tensors(state)}, path)


def load_policy(path: Path | str) -> Policy:
    """Observations [count, O] -> actions [count, ...] in the environment's own bounds, as the run evaluated it."""
    contents = read_policy(path)
    act = unit_policy(contents)
    if contents["format"] == WITHOUT_BOUNDS:
        warnings.warn(
            f"{path} was exported without action bounds: its actions are in [-1, 1]; stretch them onto the environment's, "
            "or export the run again",
            stacklevel=2,
        )
        return act
    low, high = contents["action_low"].numpy(), contents["action_high"].numpy()
    return lambda observation: in_bounds(act(observation), low, high)


def unit_policy(contents: Mapping[str, Any]) -> Policy:
    """Observations [count, O] -> actions [count, A] in [-1, 1], of what a policy file holds."""
    try:
        config = PWMConfig.model_validate_json(contents["config"], context=STORED)
    except ValidationError as error:
        raise DamagedStateError(
            f"the policy was exported with settings that this version ({version('eigen2')}) cannot read: "
            f"{error.errors()[0]['msg'].removeprefix('Value error, ')}; use the version that exported it"
        ) from error
    agent, statistics = restored(
        config, contents["observation_size"], contents["action_size"], contents["weights"]
    )
    return agent.greedy(statistics)


def read_policy(path: Path | str) -> dict[str, Any]:
    """The contents of a policy file; loading runs no code."""
    if not Path(path).is_file():
        raise DamagedStateError(f"{path} does not exist; `eigen2 export RUN` writes policy files")
    try:
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise DamagedStateError(
            f"{path} cannot be read ({_first_line(error)}); export the run again"
        ) from error
    if not isinstance(contents, dict) or contents.get("format") not in (FORMAT, WITHOUT_BOUNDS):
        raise DamagedStateError(f"{path} is not a policy exported by eigen2; export the run again")
    return contents


def _as_tensors(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _as_tensors(value) for key, value in state.items()}
    if isinstance(state, np.generic):
        return state.item()
    return torch.as_tensor(state) if isinstance(state, np.ndarray) else state


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
