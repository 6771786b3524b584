"""Runners in the x-z plane: positions are (x, height, angle, joints), all zero in the standing pose."""

import numpy as np

from eigen2.envs.control.environments import Bools
from eigen2.envs.control.task import Floats, SimulatedTask, bounded_height, spread


class Planar(SimulatedTask):
    """Observation: positions without x, then all velocities."""

    def observe(self, position: Floats, velocity: Floats, action: Floats) -> Floats:
        return np.concatenate([position[:, 1:], velocity], 1)


class Hopper(Planar):
    """Observation [0] height, [1] angle, [2:5] joints, [5] forward speed, [6:11] other speeds.

    reward = speed + height term + (1 - angle^2 / (pi/6)^2) - 0.1 |a|^2; ends below -0.45.
    """

    name = "dflex_hopper"
    model = "hopper.xml"
    observation_size = 11
    action_size = 3
    lowest = -0.45

    def start(self, count: int, stream: np.random.Generator) -> tuple[Floats, Floats]:
        return spread(stream, 0.05, count, 6), spread(stream, 0.05, count, 6)

    def reward(self, observation: Floats, action: Floats) -> Floats:
        upright = 1.0 - observation[:, 1] ** 2 / (np.pi / 6) ** 2
        height = bounded_height(observation[:, 0], self.lowest + 0.15, cap=0.3, scale=1.0)
        reward: Floats = observation[:, 5] + height + upright - 0.1 * np.square(action).sum(1)
        return reward

    def terminated(self, observation: Floats) -> Bools:
        return observation[:, 0] < self.lowest


class Cheetah(Planar):
    """Observation [0] height, [1] angle, [2:8] joints, [8] forward speed, [9:17] other speeds.

    reward = speed - 0.1 |a|^2; never ends early.
    """

    name = "dflex_cheetah"
    model = "cheetah.xml"
    observation_size = 17
    action_size = 6

    def start(self, count: int, stream: np.random.Generator) -> tuple[Floats, Floats]:
        position = spread(stream, 0.1, count, 9)
        position[:, 1] = 0.05 * np.abs(position[:, 1]) / 0.1
        return position, spread(stream, 0.25, count, 9)

    def reward(self, observation: Floats, action: Floats) -> Floats:
        reward: Floats = observation[:, 8] - 0.1 * np.square(action).sum(1)
        return reward
