"""What a learner of continuous control needs from the world: a task that opens environments stepped together."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Step:
    """What one action led to; all arrays [count, ...]."""

    observation: Floats32
    """What to act on next: the first observation of a new episode where the old one has just ended."""
    successor: Floats32
    """Where the action led; equals `observation` except where an episode ended."""
    reward: Floats32
    terminated: Bools
    truncated: Bools


class Environments(Protocol):
    """`count` environments in lock step; one whose episode ends starts its next one by itself."""

    count: int
    observation: Floats32
    """What to act on now [count, observation_size]."""
    faults: int
    """Episodes cut because the simulation diverged."""

    def step(self, action: NDArray[Any]) -> Step:
        """action [count, action_size] in [-1, 1]"""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """After this, the same actions lead to the same steps, bit for bit."""
        ...


class Task(ABC):
    name: str
    observation_size: int
    action_size: int

    @abstractmethod
    def open(self, count: int, seed: int, purpose: str, threads: int = 1) -> Environments:
        """Environments at the start of an episode; start states come from streams of (seed, purpose)."""
