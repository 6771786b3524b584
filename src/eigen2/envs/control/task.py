"""What a control task is: a model, a start, and formulae over batches of states.

A task never touches the simulator. Everything it says is a pure function of positions, velocities and the last
action, so its observation and reward can be checked against the written formulae without any physics.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

PHYSICS_NOTE = "MuJoCo physics: scores are not comparable with dflex's"


class Task(ABC):
    """Arrays are [batch, ...]; actions are in [-1, 1]."""

    name: ClassVar[str]
    model: ClassVar[str]
    """File name of the MJCF model inside this package."""
    observation_size: ClassVar[int]
    action_size: ClassVar[int]
    episode_steps: ClassVar[int] = 1000
    substeps: ClassVar[int] = 4
    """Simulator steps per action; timestep x substeps is the control step (1/60 s unless the model says otherwise)."""

    @abstractmethod
    def start(self, count: int, stream: np.random.Generator) -> tuple[Floats, Floats]:
        """Random start states: positions [count, nq] and velocities [count, nv]."""

    @abstractmethod
    def observe(self, position: Floats, velocity: Floats, action: Floats) -> Floats:
        """[batch, nq], [batch, nv], last action [batch, action_size] -> [batch, observation_size]"""

    @abstractmethod
    def reward(self, observation: Floats, action: Floats) -> Floats:
        """Reward of arriving at `observation` by `action`. -> [batch]"""

    def terminated(self, observation: Floats) -> Bools:
        """True where the episode ends because the robot has failed. -> [batch]"""
        return np.zeros(len(observation), dtype=np.bool_)


def spread(stream: np.random.Generator, half_width: float, *shape: int) -> Floats:
    """Uniform in [-half_width, half_width]."""
    return stream.uniform(-half_width, half_width, shape)


def bounded_height(height: Floats, floor: float, cap: float, scale: float) -> Floats:
    """d = clip(height - floor, -1, cap); scale d when positive, -200 d^2 when below the floor."""
    d = np.clip(height - floor, -1.0, cap)
    return np.where(d < 0.0, -200.0 * d * d, scale * d)
