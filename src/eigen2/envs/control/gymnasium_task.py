"""Any Gymnasium environment with continuous actions, as a task.

A Gymnasium environment cannot say what its state is. What it can do is repeat itself: an episode is a function of its
seed and its actions, so the saved state of an environment is those two, and restoring plays the episode again. This
is exact for every environment that draws all its randomness from its own seeded generator.

Nor does it say whether its observations are stacks of frames or windows over time. That shows when it is played.
"""

from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from eigen2 import seeds
from eigen2.envs.config import GymConfig
from eigen2.envs.control.environments import (
    Bools,
    Environments,
    Floats32,
    Stage,
    Step,
    Task,
    checked_seeds,
    stretched,
)
from eigen2.envs.gym import GymEnv, drawn_gym, make_gym, refuse_fault, rendered
from eigen2.errors import DamagedStateError, DataError

PROBED_STEPS = 4


class GymnasiumTask(Task):
    def __init__(self, config: GymConfig) -> None:
        super().__init__()
        self.config = config
        self.name = config.id
        probe = make_gym(config)
        assert isinstance(probe.action_space, spaces.Box)
        assert isinstance(probe.observation_space, spaces.Box)
        self.action_space = probe.action_space
        self.action_size = int(np.prod(probe.action_space.shape))
        self.observation_size = int(np.prod(probe.observation_space.shape))
        self.observation_shape = shape = probe.observation_space.shape
        if len(shape) > 1:
            self.note = (
                f"observations of shape {shape} are flattened to {self.observation_size:,} numbers: networks here read "
                "vectors, not pictures"
            )
        self.episode_steps = None if probe.spec is None else probe.spec.max_episode_steps
        probe.close()

    @property
    def action_bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.action_space.low, self.action_space.high

    @cached_property
    def observation_rows(self) -> int | None:
        if len(self.observation_shape) < 2:
            return None
        with closing(GymnasiumEnvironments(self, 1)) as environments:
            return stacked_rows(environments, self.observation_shape[0])

    def _make(self, count: int) -> Environments:
        return GymnasiumEnvironments(self, count)

    def stage(self, width: int, height: int) -> Stage:
        """Gymnasium's own pictures, of the size that the environment chooses."""
        environments = GymnasiumEnvironments(self, 1, drawn=True)
        rate = environments.metadata.get("render_fps")
        return Stage(environments, environments.picture, 1.0 / float(rate or 30), environments.close)


def stacked_rows(environments: Environments, rows: int) -> int | None:
    """`rows`, if those along the first axis of an observation move on by the same few with every step; otherwise None."""
    random = np.random.default_rng(0)
    environments.reset([0])
    before = environments.observation[0].reshape(rows, -1)
    shifts = set(range(1, rows // 2 + 1))
    for _ in range(PROBED_STEPS):
        step = environments.step(
            random.uniform(-1.0, 1.0, (environments.count, environments.task.action_size))
        )
        now = step.successor[0].reshape(rows, -1)
        shifts = {shift for shift in shifts if np.array_equal(now[:-shift], before[shift:])}
        if not shifts or step.terminated[0] or step.truncated[0]:
            break
        before = now
    # Where all rows are alike, as in a black picture, nothing can be seen to move.
    return rows if shifts and (now != now[:1]).any() else None


class GymnasiumEnvironments(Environments):
    task: GymnasiumTask

    def __init__(self, task: GymnasiumTask, count: int, drawn: bool = False) -> None:
        self.task, self.count, self.faults = task, count, 0
        make = drawn_gym if drawn else make_gym
        self._envs: list[GymEnv] = [make(task.config) for _ in range(count)]
        self._stream: tuple[int, str] | None = None
        """Seed and purpose of a stream; None while single episodes are played."""
        self._episodes = np.zeros(count, dtype=np.int64)
        self._actions: list[list[Floats32]] = [[] for _ in range(count)]
        """Of each stream, the actions of its running episode."""
        self._playing: Bools = np.zeros(count, dtype=np.bool_)
        self.observation: Floats32 = np.zeros((count, task.observation_size), dtype=np.float32)

    def restart(self, seed: int, purpose: str) -> None:
        self._stream = (seed, purpose)
        self._episodes[:] = 0
        self._playing[:] = True
        self.observation = np.stack([self._start(i) for i in range(self.count)])

    def reset(self, seeds: Sequence[int]) -> None:
        self._stream = None
        self._playing = np.arange(self.count) < len(checked_seeds(seeds, self.count))
        self.observation = np.zeros_like(self.observation)
        for i, seed in enumerate(seeds):
            self.observation[i] = self._reset(i, int(seed))

    def step(self, action: NDArray[Any]) -> Step:
        if action.shape != (self.count, self.task.action_size) or not np.isfinite(action).all():
            raise ValueError(
                f"{self.task.name} needs finite actions of shape {(self.count, self.task.action_size)}"
            )
        taken = action.astype(np.float32)
        wide = stretched(taken, *self.task.action_bounds)
        successor, reward = self.observation.copy(), np.zeros(self.count)
        terminated, truncated = np.zeros((2, self.count), dtype=np.bool_)
        for i in np.flatnonzero(self._playing).tolist():
            successor[i], reward[i], terminated[i], truncated[i] = self._act(i, wide[i])
        with np.errstate(over="ignore"):
            stored = reward.astype(np.float32)
        if not np.isfinite(stored).all():
            raise DataError(
                f"env.id={self.task.name} returned a reward that is not finite (NaN, infinite, or too large for float32)"
            )
        truncated &= ~terminated
        self.observation = successor.copy()
        ended = np.flatnonzero(terminated | truncated).tolist()
        if self._stream is None:
            self._playing[ended] = False
            return Step(self.observation, successor, reward, terminated, truncated)
        for i in range(self.count):
            self._actions[i].append(taken[i])
        for i in ended:
            self._episodes[i] += 1
            self.observation[i] = self._start(i)
        return Step(self.observation, successor, stored, terminated, truncated)

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
            self.observation[i] = self._start(i)
            for action in stretched(actions, *self.task.action_bounds):
                self.observation[i] = self._act(i, action)[0]
            self._actions[i] = list(actions)
        if not np.array_equal(self.observation, np.asarray(state["observation"])):
            raise DamagedStateError(
                f"{self.task.name} does not repeat its episodes from their seeds and actions, so a run on it cannot be "
                "resumed exactly; start a new run"
            )

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(self._envs[0].metadata)

    def picture(self) -> NDArray[np.uint8]:
        """Of the first environment, if it was opened to be drawn."""
        return rendered(self._envs[0], self.task.name)

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _start(self, i: int) -> Floats32:
        """The next episode of a stream. -> [observation_size]"""
        assert self._stream is not None
        self._actions[i] = []
        return self._reset(i, seeds.integer(*self._stream, i, int(self._episodes[i])) % 2**31)

    def _reset(self, i: int, seed: int) -> Floats32:
        try:
            observation, _ = self._envs[i].reset(seed=seed)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's own code
            refuse_fault(self.task.name, "reset()", error)
        return self._checked(observation)

    def _act(self, i: int, action: NDArray[Any]) -> tuple[Floats32, float, bool, bool]:
        try:
            observation, reward, terminated, truncated, _ = self._envs[i].step(action)
            earned, ended, cut = float(reward), bool(terminated), bool(truncated)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's own code
            refuse_fault(self.task.name, "step()", error)
        return self._checked(observation), earned, ended, cut

    def _checked(self, observation: Any) -> Floats32:
        try:
            with np.errstate(over="ignore"):
                flat = np.asarray(observation, np.float32).reshape(-1)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"env.id={self.task.name} returned an observation that is no array of numbers: {error}"
            ) from error
        if flat.size != self.task.observation_size:
            raise DataError(
                f"env.id={self.task.name} returned an observation of shape {np.shape(observation)}, but its observation "
                f"space has the shape {self.task.observation_shape}"
            )
        if not np.isfinite(flat).all():
            raise DataError(
                f"env.id={self.task.name} returned an observation that is not finite (NaN, infinite, or too large for "
                "float32)"
            )
        return flat
