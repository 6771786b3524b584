"""What a learner of continuous control needs from the world: a task, and environments of it that are stepped together.

Environments work in one of two ways. After `restart` they are an endless *stream*: one whose episode ends starts its
next one by itself. After `reset` they play single *episodes* from seeds: one whose episode ends stays where it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigen2.errors import ConfigError

Floats32 = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Step:
    """What one action led to; all arrays [count, ...]."""

    observation: Floats32
    """What to act on next: in a stream, the first observation of a new episode where the old one has just ended."""
    successor: Floats32
    """Where the action led; equals `observation` except where an episode ended."""
    reward: NDArray[np.floating]
    """float32 in a stream, as a replay stores it; as the environment computes it in episodes."""
    terminated: Bools
    truncated: Bools
    """The episode was cut by its time limit; never true where it terminated."""


class Environments(ABC):
    """`count` environments in lock step."""

    task: "Task"
    count: int
    observation: Floats32
    """What to act on now [count, observation_size]."""
    faults: int
    """Episodes cut because the simulation diverged."""

    @abstractmethod
    def restart(self, seed: int, purpose: str) -> None:
        """A stream, exactly as if just opened: start states come from streams of (seed, purpose)."""

    @abstractmethod
    def reset(self, seeds: Sequence[int]) -> None:
        """One episode in each of the first len(seeds) environments, a function of its seed and its actions alone.

        Those that have finished keep their last observation, those that are not used observe zeros; both earn nothing.
        """

    @abstractmethod
    def step(self, action: NDArray[Any]) -> Step:
        """action [count, action_size] in [-1, 1]"""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """The state of a stream."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """After this, the same actions lead to the same steps, bit for bit."""

    def close(self) -> None:
        """Nothing can be stepped after this."""
        return


@dataclass(frozen=True)
class Stage:
    """One environment that can be looked at."""

    environments: Environments
    picture: Callable[[], NDArray[np.uint8]]
    """What is to be seen now [height, width, 3]."""
    step_seconds: float
    """Time that an action takes in the world."""
    close: Callable[[], None]


class Task(ABC):
    name: str
    observation_size: int
    action_size: int
    episode_steps: int | None
    """Time limit of an episode; None when it has none."""
    note: str | None = None
    """What must be said beside every score."""

    @property
    def action_bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(low, high) of the environment's own actions, onto which [-1, 1] is stretched."""
        high = np.ones(self.action_size, np.float32)
        return -high, high

    @property
    def observation_rows(self) -> int | None:
        """How many rows an observation is a stack of, most of which were in the one before: frames, or days."""
        return None

    def __init__(self) -> None:
        self._opened: list[Environments] = []
        self._kept: dict[int, Environments] = {}

    def open(self, count: int, seed: int, purpose: str) -> Environments:
        """A new stream of the caller's own."""
        environments = self._make(count)
        self._opened.append(environments)
        environments.restart(seed, purpose)
        return environments

    def environments(self, count: int) -> Environments:
        """The same ones at every call, for whoever plays now: `restart` or `reset` them first."""
        if count not in self._kept:
            self._kept[count] = self._make(count)
        return self._kept[count]

    def close(self) -> None:
        """Ends all environments that were opened."""
        for environments in (*self._opened, *self._kept.values()):
            environments.close()
        self._opened.clear()
        self._kept.clear()

    def stage(self, width: int, height: int) -> Stage:
        """To be filmed in pictures of about this size; whoever asks for it closes it."""
        raise ConfigError(f"{self.name} cannot be filmed.")

    @abstractmethod
    def _make(self, count: int) -> Environments:
        """Environments that have neither been restarted nor reset."""


def stretched(action: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """Actions [n, action_size] in [-1, 1] onto an environment's own bounds. -> [n, ...]"""
    unit = 0.5 * (np.clip(action, -1.0, 1.0) + 1.0)
    wide = low + unit.reshape(len(action), *low.shape) * (high - low)
    bounded: NDArray[Any] = np.clip(wide, low, high).astype(low.dtype)
    return bounded


def in_bounds(action: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """`stretched`, to the last bit what was given where the bounds are -1 and 1 already."""
    if (low == -1.0).all() and (high == 1.0).all():
        bounded: NDArray[Any] = np.clip(action, low.min(), high.max()).reshape(len(action), *low.shape)
        return bounded
    return stretched(action, low, high)


def checked_seeds(seeds: Sequence[int], count: int) -> Sequence[int]:
    if not 1 <= len(seeds) <= count:
        raise ValueError(f"{len(seeds)} seeds for {count} environments")
    return seeds
