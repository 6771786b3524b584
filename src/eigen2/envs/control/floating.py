"""Robots with a free root: ant and humanoid, observed in dflex's order and its y-up world.

MuJoCo is z-up with quaternions (w, x, y, z) and a root turn rate in the body's own frame; dflex is y-up with
(x, y, z, w) and world-frame rates. A vector (x, y, z) becomes (x, z, -y), a turn by -90 degrees about x, and that
same turn multiplies the root's orientation from the left.
"""

import numpy as np

from eigen2.envs.control.environments import Bools
from eigen2.envs.control.task import Floats, SimulatedTask, bounded_height, spread

TARGET_DISTANCE = 10_000.0
HALF = 0.5**0.5


def rotate(quaternion: Floats, vector: Floats) -> Floats:
    """Rotates vectors by unit quaternions. (w, x, y, z) [batch, 4], [batch, 3] or [3] -> [batch, 3]"""
    w, axis = quaternion[:, :1], quaternion[:, 1:]
    cross: Floats = np.cross(axis, vector)
    turned: Floats = vector + 2.0 * (w * cross + np.cross(axis, cross))
    return turned


def y_up(vector: Floats) -> Floats:
    """z-up (x, y, z) -> y-up (x, z, -y). [batch, 3]"""
    return np.stack([vector[:, 0], vector[:, 2], -vector[:, 1]], 1)


def y_up_orientation(quaternion: Floats) -> Floats:
    """z-up (w, x, y, z) -> y-up (x, y, z, w), turned by -90 degrees about x. [batch, 4]"""
    w, x, y, z = quaternion.T
    return HALF * np.stack([x - w, y + z, z - y, w + x], 1)


class Floating(SimulatedTask):
    """Observation of J joints: [0] height, [1:5] orientation, [5:8] velocity, [8:11] turn rate, [11:11+J] joints,
    then 0.1 x joint speeds, up, heading towards a point 10 km along x, and the last action."""

    pose: tuple[float, ...]
    """Joint angles of the start pose [J]."""
    start_height: float
    lowest: float

    def start(self, count: int, stream: np.random.Generator) -> tuple[Floats, Floats]:
        joints = len(self.pose)
        place = np.array([0.0, 0.0, self.start_height]) + spread(stream, 0.1, count, 3)
        half_angle = spread(stream, np.pi / 48, count, 1)
        axis = stream.standard_normal((count, 3))
        axis /= np.linalg.norm(axis, axis=1, keepdims=True)
        orientation = np.concatenate([np.cos(half_angle), np.sin(half_angle) * axis], 1)
        angles = np.array(self.pose) + spread(stream, 0.2, count, joints)
        return np.concatenate([place, orientation, angles], 1), spread(stream, 0.25, count, 6 + joints)

    def observe(self, position: Floats, velocity: Floats, action: Floats) -> Floats:
        quaternion = position[:, 3:7]
        up = rotate(quaternion, np.array([0.0, 0.0, 1.0]))[:, 2:]
        forward = rotate(quaternion, np.array([1.0, 0.0, 0.0]))
        target = np.stack([TARGET_DISTANCE - position[:, 0], -position[:, 1]], 1)
        target /= np.linalg.norm(target, axis=1, keepdims=True)
        heading = (forward[:, :2] * target).sum(1, keepdims=True)
        return np.concatenate(
            [
                position[:, 2:3],
                y_up_orientation(quaternion),
                y_up(velocity[:, :3]),
                y_up(rotate(quaternion, velocity[:, 3:6])),
                position[:, 7:],
                0.1 * velocity[:, 6:],
                up,
                heading,
                action,
            ],
            axis=1,
        )

    def posture(self, observation: Floats) -> Floats:
        """Forward speed + 0.1 up + heading, the terms all floating robots share. -> [batch]"""
        after_joints = 11 + 2 * len(self.pose)
        return observation[:, 5] + 0.1 * observation[:, after_joints] + observation[:, after_joints + 1]

    def terminated(self, observation: Floats) -> Bools:
        return observation[:, 0] < self.lowest


class Ant(Floating):
    """reward = speed + 0.1 up + heading + (height - 0.27); ends below 0.27."""

    name = "dflex_ant"
    model = "ant.xml"
    observation_size = 37
    action_size = 8
    pose = (0.0, 1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0)
    start_height = 0.75
    lowest = 0.27

    def reward(self, observation: Floats, action: Floats) -> Floats:
        return self.posture(observation) + observation[:, 0] - self.lowest


class Humanoid(Floating):
    """reward = speed + 0.1 up + heading + 10 clip(height - 0.84, -1, 0.1) [below: -200 d^2] - 0.002 |a|^2; ends
    below 0.74."""

    name = "dflex_humanoid"
    model = "humanoid.xml"
    observation_size = 76
    action_size = 21
    pose = (0.0,) * 21
    start_height = 1.35
    lowest = 0.74

    def reward(self, observation: Floats, action: Floats) -> Floats:
        height = bounded_height(observation[:, 0], self.lowest + 0.1, cap=0.1, scale=10.0)
        reward: Floats = self.posture(observation) + height - 0.002 * np.square(action).sum(1)
        return reward
