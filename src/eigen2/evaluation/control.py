"""Closed-loop evaluation of a control policy, beside what random actions and standing still earn.

Standing still is shown because on many tasks it is already worth a lot: a policy has learned nothing until it beats
it. The same seeds start the episodes of all three.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2 import seeds
from eigen2.envs.gym import GymBatch
from eigen2.errors import ConfigError

Act = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.floating]]
"""Observations [n, observation] -> actions [n, action] in [-1, 1]."""


@dataclass(frozen=True)
class ControlEvaluation:
    """Undiscounted returns over whole episodes."""

    mean_return: float
    std_return: float
    """Sample deviation over the episodes; 0 for a single one."""
    episodes: int
    random_return: float
    """Mean return of actions drawn uniformly."""
    stand_still_return: float
    """Mean return of the action in the middle of the action space, zero torque where the space is symmetric."""
    returns: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "returns": list(self.returns)}


def evaluate_control(act: Act, batch: GymBatch, *, seed: int, episodes: int = 20) -> ControlEvaluation:
    """Plays `episodes` episodes with `act`, and as many at random and standing still."""
    starts = [seeds.integer(seed, "evaluation.episode", episode) for episode in range(episodes)]
    stream = seeds.generator(seed, "evaluation.random_actions")

    def at_random(observation: npt.NDArray[np.float32]) -> npt.NDArray[np.floating]:
        return stream.uniform(-1.0, 1.0, (len(observation), batch.action_size))

    def standing(observation: npt.NDArray[np.float32]) -> npt.NDArray[np.floating]:
        return np.zeros((len(observation), batch.action_size))

    returns = episode_returns(act, batch, starts)
    return ControlEvaluation(
        mean_return=float(returns.mean()),
        std_return=float(returns.std(ddof=1)) if episodes > 1 else 0.0,
        episodes=episodes,
        random_return=float(episode_returns(at_random, batch, starts).mean()),
        stand_still_return=float(episode_returns(standing, batch, starts).mean()),
        returns=tuple(float(value) for value in returns),
    )


def episode_returns(act: Act, batch: GymBatch, starts: list[int]) -> npt.NDArray[np.float64]:
    """Return of one whole episode per seed, `[episode]`; played in groups as large as the batch."""
    if batch.max_episode_steps is None:
        raise ConfigError(
            f"env.id={batch.config.id} has no time limit, so its episodes may never end: set env.max_episode_steps"
        )
    totals = np.zeros(len(starts))
    for begin in range(0, len(starts), batch.n):
        group = starts[begin : begin + batch.n]
        observation = batch.reset(group)
        total = np.zeros(batch.n)
        while not batch.done.all():
            step = batch.step(act(observation))
            observation = step.observation
            total += step.reward
        totals[begin : begin + len(group)] = total[: len(group)]
    return totals
