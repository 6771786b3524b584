"""Experience: environments acted in, transitions written to replay, running statistics kept."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigen2.algorithms.pwm.normaliser import Normaliser
from eigen2.envs.control.environments import Environments, Task
from eigen2.replay.buffer import Replay
from eigen2.replay.schema import Schema, vector_schema

ExplorationPolicy = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""observations [count, O] -> actions [count, A]"""
Report = Callable[[int, int], None]
"""Called with (done, total)."""
RECENT = 100


def schema_of(task: Task) -> Schema:
    return vector_schema(task.observation_size, task.action_size, rows=task.observation_rows)


class Collector:
    """Steps all environments together and writes each run of steps to replay in one call."""

    def __init__(self, task: Task, environments: Environments, replay: Replay) -> None:
        self.environments = environments
        self.replay = replay
        self.observations = Normaliser(task.observation_size)
        self.rewards = Normaliser(1)
        self.steps = 0
        """Environment steps taken so far, all environments together."""
        self._returns = np.zeros(environments.count)
        self._recent: list[float] = []

    @property
    def recent_return(self) -> float | None:
        """Mean return of the last finished training episodes (with exploration noise); None before the first."""
        return float(np.mean(self._recent)) if self._recent else None

    def run(self, policy: ExplorationPolicy, steps: int, report: Report = lambda done, total: None) -> None:
        """Takes `steps` steps in every environment."""
        rows: dict[str, list[NDArray[Any]]] = {
            "obs": [],
            "action": [],
            "reward": [],
            "terminated": [],
            "truncated": [],
        }
        successors = []
        for number in range(steps):
            observation = self.environments.observation
            action = policy(observation)
            step = self.environments.step(action)
            values = (observation, action, step.reward, step.terminated, step.truncated)
            for column, value in zip(rows.values(), values, strict=True):
                column.append(value)
            successors.append(step.successor)
            self._count(step.reward, step.terminated | step.truncated)
            report(number + 1, steps)
        batch = {name: np.stack(column) for name, column in rows.items()}
        self.replay.extend_transitions(batch, {"obs": np.stack(successors)})
        self.observations.update(batch["obs"])
        self.rewards.update(batch["reward"][..., None])
        self.steps += steps * self.environments.count

    def learn_statistics(self, replay: Replay) -> None:
        """Takes observations and rewards of another replay into the running statistics, a part at a time."""
        first = replay.links.first
        for numbers in np.array_split(np.arange(first, first + len(replay)), max(1, len(replay) // 10_000)):
            batch = replay.transitions(numbers)
            self.observations.update(batch.observation["obs"].numpy())
            self.rewards.update(batch.step["reward"].numpy()[:, None])

    def state_dict(self) -> dict[str, Any]:
        return {
            "environments": self.environments.state_dict(),
            "observations": self.observations.state_dict(),
            "rewards": self.rewards.state_dict(),
            "steps": self.steps,
            "returns": self._returns.copy(),
            "recent": np.array(self._recent),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.environments.load_state_dict(state["environments"])
        self.observations.load_state_dict(state["observations"])
        self.rewards.load_state_dict(state["rewards"])
        self.steps = int(state["steps"])
        self._returns = np.asarray(state["returns"]).astype(np.float64)
        self._recent = [float(value) for value in np.asarray(state["recent"])]

    def _count(self, reward: NDArray[np.floating], ended: NDArray[np.bool_]) -> None:
        self._returns += reward
        self._recent = [*self._recent, *self._returns[ended].tolist()][-RECENT:]
        self._returns[ended] = 0.0
