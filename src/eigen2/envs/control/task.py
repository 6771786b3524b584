"""What a control task is: a model, a start, and formulae over batches of states.

A task never touches the simulator. Everything it says is a pure function of positions, velocities and the last
action, so its observation and reward can be checked against the written formulae without any physics.
"""

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from eigen2.envs.control.environments import Bools, Environments, Stage, Task

Floats = NDArray[np.float64]


class SimulatedTask(Task):
    """A task on MuJoCo's simulator. Arrays are [batch, ...]; actions are in [-1, 1]."""

    note = "MuJoCo physics: scores are not comparable with dflex's"
    model: str
    """File name of the MJCF model inside this package."""
    episode_steps = 1000
    substeps: int = 4
    """Simulator steps per action; timestep x substeps is the control step (1/60 s unless the model says otherwise)."""

    speed_limit: float | None = None
    """Joint speeds are cut to this after every action."""

    def _make(self, count: int) -> Environments:
        from eigen2.envs.control.simulation import SimulatedEnvironments

        return SimulatedEnvironments(self, count)

    def stage(self, width: int, height: int) -> Stage:
        from eigen2.envs.control.simulation import staged

        return staged(self, width, height)

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
