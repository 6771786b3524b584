"""Swing-up tasks: pendulum and cart-pole. Angle 0 is upright, pi hangs down."""

import numpy as np

from eigen2.envs.control.task import Floats, SimulatedTask, spread


class Pendulum(SimulatedTask):
    """Observation cos, sin, speed; reward -(angle^2 + 0.1 speed^2 + 0.001 torque^2), torque up to 2 Nm, speed up to
    8 rad/s; 0.05 s steps: the classic task."""

    name = "pendulum"
    model = "pendulum.xml"
    observation_size = 3
    action_size = 1
    episode_steps = 200
    speed_limit = 8.0

    def start(self, count: int, stream: np.random.Generator) -> tuple[Floats, Floats]:
        return spread(stream, np.pi, count, 1), spread(stream, 1.0, count, 1)

    def observe(self, position: Floats, velocity: Floats, action: Floats) -> Floats:
        return np.concatenate([np.cos(position), np.sin(position), velocity], 1)

    def reward(self, observation: Floats, action: Floats) -> Floats:
        angle = np.arctan2(observation[:, 1], observation[:, 0])
        torque = 2.0 * action[:, 0]
        return -(angle**2 + 0.1 * observation[:, 2] ** 2 + 0.001 * torque**2)


class CartPole(SimulatedTask):
    """Observation x, x speed, sin, cos, angle speed; 240 steps; starts hanging, spread by a quarter turn."""

    name = "dflex_cartpole"
    model = "cartpole.xml"
    observation_size = 5
    action_size = 1
    episode_steps = 240

    def start(self, count: int, stream: np.random.Generator) -> tuple[Floats, Floats]:
        position = np.array([0.0, -np.pi]) + spread(stream, np.pi / 2, count, 2)
        return position, spread(stream, 0.25, count, 2)

    def observe(self, position: Floats, velocity: Floats, action: Floats) -> Floats:
        x, angle = position[:, 0], position[:, 1]
        return np.stack([x, velocity[:, 0], np.sin(angle), np.cos(angle), velocity[:, 1]], 1)

    def reward(self, observation: Floats, action: Floats) -> Floats:
        x, speed, sine, cosine, turn = observation.T
        angle = np.arctan2(sine, cosine)
        cost: Floats = angle**2 + 0.1 * turn**2 + 0.05 * x**2 + 0.1 * speed**2
        return -cost
