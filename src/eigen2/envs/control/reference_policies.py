"""What doing nothing and doing anything earn: the two scores every control result is shown beside.

Standing still already earns more than 1,000 on some tasks, so a return means little without them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigen2 import seeds
from eigen2.envs.control.environments import Task

Policy = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Observations [count, observation_size] -> actions [count, action_size] in [-1, 1]."""


@dataclass(frozen=True)
class Returns:
    """Undiscounted real rewards of whole episodes, one per environment."""

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        return float(self.returns.std())


def play(
    task: Task, policy: Policy, episodes: int, seed: int, purpose: str = "evaluate", threads: int = 1
) -> Returns:
    """Closed loop, real rewards: each of `episodes` environments plays one whole episode."""
    batch = task.open(episodes, seed, purpose, threads)
    returns = np.zeros(episodes)
    lengths = np.zeros(episodes, dtype=np.int64)
    playing = np.ones(episodes, dtype=np.bool_)
    observation = batch.observation
    while playing.any():
        step = batch.step(policy(observation))
        observation = step.observation
        returns += np.where(playing, step.reward, 0.0)
        lengths += playing
        playing &= ~(step.terminated | step.truncated)
    return Returns(returns, lengths)


def stand_still(task: Task) -> Policy:
    return lambda observation: np.zeros((len(observation), task.action_size), dtype=np.float32)


def at_random(task: Task, seed: int) -> Policy:
    """Uniform actions from their own stream."""
    stream = seeds.generator(seed, "random policy")

    def policy(observation: NDArray[np.float32]) -> NDArray[np.float32]:
        return stream.uniform(-1.0, 1.0, (len(observation), task.action_size)).astype(np.float32)

    return policy
