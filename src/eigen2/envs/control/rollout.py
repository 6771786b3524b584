"""Closed loop: a policy acts in real environments, one whole episode in each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigen2.envs.control.environments import Environments, Task
from eigen2.errors import ConfigError

Policy = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Observations [count, observation_size] -> actions [count, action_size] in [-1, 1]."""
Columns = dict[str, NDArray[Any]]
MOST_STEPS = 10_000
"""Episodes of an environment without a time limit must end within this many steps."""


@dataclass(frozen=True)
class ControlRollout:
    """Whole episodes, one per environment; undiscounted real rewards."""

    returns: NDArray[np.float64]
    """[episode]"""
    lengths: NDArray[np.int64]
    """[episode]"""
    transitions: tuple[tuple[Columns, Columns], ...] = ()
    """For each recorded episode its steps, fields [time, 1, ...], and what was observed after them [1, ...]."""

    @property
    def mean(self) -> float:
        return float(self.returns.mean())


def play(
    environments: Environments,
    policy: Policy,
    seeds: Sequence[int] | None = None,
    *,
    record: bool = False,
) -> ControlRollout:
    """One episode per seed; without seeds, one in every environment of a stream that was just restarted."""
    if seeds is not None:
        environments.reset(seeds)
    episodes = environments.count if seeds is None else len(seeds)
    playing = np.arange(environments.count) < episodes
    returns, lengths = np.zeros(environments.count), np.zeros(environments.count, dtype=np.int64)
    last = environments.observation.copy()
    rows: list[Columns] = []
    while playing.any():
        _refuse_endless(environments.task, int(lengths.max()))
        observation = environments.observation
        action = policy(observation)
        step = environments.step(action)
        if record:
            rows.append({
                "obs": observation, "action": action, "reward": step.reward.astype(np.float32),
                "terminated": step.terminated, "truncated": step.truncated,
            })  # fmt: skip
        returns += np.where(playing, step.reward, 0.0)
        lengths += playing
        last[playing] = step.successor[playing]
        playing &= ~(step.terminated | step.truncated)
    return ControlRollout(
        returns[:episodes],
        lengths[:episodes],
        _by_episode(rows, lengths[:episodes], last) if record else (),
    )


def play_episodes(
    task: Task, policy: Policy, episodes: int, seed: int, purpose: str = "evaluate"
) -> ControlRollout:
    """The same start states at every call of one (seed, purpose); the environments are reused."""
    environments = task.environments(episodes)
    environments.restart(seed, purpose)
    return play(environments, policy)


def _refuse_endless(task: Task, steps: int) -> None:
    if task.episode_steps is None and steps >= MOST_STEPS:
        raise ConfigError(
            f"env.id={task.name} has no time limit and does not end within {MOST_STEPS} steps; "
            "set env.max_episode_steps."
        )


def _by_episode(
    rows: list[Columns], lengths: NDArray[np.int64], last: NDArray[np.float32]
) -> tuple[tuple[Columns, Columns], ...]:
    """Episodes end at different times: each becomes a chunk of its own, one stream wide."""
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return tuple(
        (
            {name: value[:length, stream : stream + 1] for name, value in stacked.items()},
            {"obs": last[stream : stream + 1]},
        )
        for stream, length in enumerate(lengths)
    )
