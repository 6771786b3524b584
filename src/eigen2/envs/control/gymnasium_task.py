"""Any Gymnasium environment with continuous actions, as a task for PWM.

A Gymnasium environment cannot say what its state is. What it can do is repeat itself: an episode is a function of its
seed and its actions, so the saved state of an environment is those two, and restoring plays the episode again. This
is exact for every environment that draws all its randomness from its own seeded generator.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigen2 import seeds
from eigen2.envs.config import GymConfig
from eigen2.envs.control.environments import Environments, Floats32, Step, Task
from eigen2.envs.gym import GymBatch
from eigen2.errors import DamagedStateError


class GymnasiumTask(Task):
    def __init__(self, config: GymConfig) -> None:
        self.config = config
        self.name = config.id
        probe = GymBatch(config, 1)
        self.observation_size, self.action_size = probe.observation_size, probe.action_size
        probe.close()

    def open(self, count: int, seed: int, purpose: str, threads: int = 1) -> Environments:
        return GymnasiumEnvironments(self, count, seed, purpose)


class GymnasiumEnvironments:
    """Single-environment batches, because each starts its next episode on its own."""

    def __init__(self, task: GymnasiumTask, count: int, seed: int, purpose: str) -> None:
        self.task, self.count = task, count
        self._seed, self._purpose = seed, purpose
        self._copies = [GymBatch(task.config, 1) for _ in range(count)]
        self._episodes = np.zeros(count, dtype=np.int64)
        self._actions: list[list[Floats32]] = [[] for _ in range(count)]
        self.faults = 0
        self.observation: Floats32 = np.concatenate([self._start(i) for i in range(count)])

    def step(self, action: NDArray[Any]) -> Step:
        if action.shape != (self.count, self.task.action_size):
            raise ValueError(f"{self.task.name} needs actions of shape {(self.count, self.task.action_size)}")
        taken = action.astype(np.float32)
        results = [copy.step(taken[i : i + 1]) for i, copy in enumerate(self._copies)]
        for i in range(self.count):
            self._actions[i].append(taken[i])
        successor = np.concatenate([result.observation for result in results])
        reward = np.concatenate([result.reward for result in results]).astype(np.float32)
        terminated = np.concatenate([result.terminated for result in results])
        truncated = np.concatenate([result.truncated for result in results]) & ~terminated
        self.observation = successor.copy()
        for i in np.flatnonzero(terminated | truncated).tolist():
            self._episodes[i] += 1
            self.observation[i] = self._start(i)[0]
        return Step(self.observation, successor, reward, terminated, truncated)

    def state_dict(self) -> dict[str, Any]:
        """Numbers of the running episodes and their actions, one after the other [all steps, action_size]."""
        flat = [action for actions in self._actions for action in actions]
        return {
            "task": self.task.name,
            "episodes": self._episodes.copy(),
            "lengths": np.array([len(actions) for actions in self._actions]),
            "actions": np.array(flat, dtype=np.float32).reshape(-1, self.task.action_size),
            "observation": self.observation.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        lengths = np.asarray(state["lengths"])
        if state["task"] != self.task.name or len(lengths) != self.count:
            raise DamagedStateError(
                f"saved state is of {len(lengths)} x {state['task']}, this is {self.count} x {self.task.name}; "
                "resume with the config the run was started with"
            )
        self._episodes = np.asarray(state["episodes"]).astype(np.int64)
        parts = np.split(np.asarray(state["actions"]).astype(np.float32), np.cumsum(lengths)[:-1])
        for i, actions in enumerate(parts):
            self.observation[i] = self._start(i)[0]
            for action in actions:
                self.observation[i] = self._copies[i].step(action[None]).observation[0]
            self._actions[i] = list(actions)
        if not np.array_equal(self.observation, np.asarray(state["observation"])):
            raise DamagedStateError(
                f"{self.task.name} does not repeat its episodes from their seeds and actions, so a run on it cannot be "
                "resumed exactly; start a new run"
            )

    def _start(self, i: int) -> Floats32:
        """[1, observation_size]"""
        self._actions[i] = []
        return self._copies[i].reset(
            [seeds.integer(self._seed, self._purpose, i, int(self._episodes[i])) % 2**31]
        )
