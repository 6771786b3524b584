"""Observations and rewards against the written formulae, spelled out by hand, without any physics."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from eigen2.envs.control.floating import Ant, Humanoid
from eigen2.envs.control.planar import Cheetah, Hopper
from eigen2.envs.control.swing import CartPole, Pendulum


def row(*values: float) -> np.ndarray:
    return np.array([values], dtype=np.float64)


def floating_state(joints: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, Rotation]:
    stream = np.random.default_rng(seed)
    rotation = Rotation.random(1, random_state=seed)
    xyzw = rotation.as_quat()
    position = np.concatenate(
        [stream.normal(size=(1, 3)), xyzw[:, [3, 0, 1, 2]], stream.normal(size=(1, joints))], 1
    )
    return position, stream.normal(size=(1, 6 + joints)), stream.uniform(-1, 1, (1, joints)), rotation


@pytest.mark.parametrize("task", [Ant(), Humanoid()])
def test_floating_robots_are_observed_in_the_y_up_order(task: Ant | Humanoid) -> None:
    joints = task.action_size
    position, velocity, action, rotation = floating_state(joints)
    observed = task.observe(position, velocity, action)[0]
    turn = Rotation.from_euler("x", -90, degrees=True)

    assert observed.shape == (task.observation_size,)
    assert observed[0] == position[0, 2]
    orientation = (turn * rotation).as_quat()[0]
    np.testing.assert_allclose(observed[1:5] * np.sign(observed[4]), orientation * np.sign(orientation[3]))
    np.testing.assert_allclose(observed[5:8], turn.apply(velocity[0, :3]))
    np.testing.assert_allclose(observed[8:11], (turn * rotation).apply(velocity[0, 3:6])[0])
    np.testing.assert_array_equal(observed[11 : 11 + joints], position[0, 7:])
    np.testing.assert_allclose(observed[11 + joints : 11 + 2 * joints], 0.1 * velocity[0, 6:])
    np.testing.assert_allclose(observed[11 + 2 * joints], rotation.apply([0, 0, 1])[0, 2])
    to_target = np.array([10_000 - position[0, 0], -position[0, 1], 0.0])
    heading = rotation.apply([1, 0, 0])[0] @ to_target / np.linalg.norm(to_target)
    np.testing.assert_allclose(observed[12 + 2 * joints], heading)
    np.testing.assert_array_equal(observed[13 + 2 * joints :], action[0])


def test_an_upright_ant_facing_forward_has_the_known_observation() -> None:
    position = row(0, 0, 0.75, 1, 0, 0, 0, 0, 1, 0, -1, 0, -1, 0, 1)
    observed = Ant().observe(position, np.zeros((1, 14)), np.zeros((1, 8)))[0]
    half = np.sqrt(0.5)
    expected = [0.75, -half, 0, 0, half, *[0] * 6, 0, 1, 0, -1, 0, -1, 0, 1, *[0] * 8, 1, 1, *[0] * 8]
    np.testing.assert_allclose(observed, expected, atol=1e-12)
    np.testing.assert_allclose(Ant().reward(observed[None], np.zeros((1, 8))), [0.1 + 1 + 0.75 - 0.27])


def test_ant_reward_is_speed_posture_and_height() -> None:
    observation = np.zeros((1, 37))
    observation[0, [0, 5, 27, 28]] = 0.5, 2.0, 0.9, -0.3
    np.testing.assert_allclose(Ant().reward(observation, np.ones((1, 8))), [2.0 + 0.09 - 0.3 + 0.23])
    assert not Ant().terminated(observation)[0]
    observation[0, 0] = 0.26
    assert Ant().terminated(observation)[0]


@pytest.mark.parametrize(
    ("height", "term"), [(1.2, 10 * 0.1), (0.89, 10 * 0.05), (0.80, -200 * 0.04**2), (-5.0, -200.0)]
)
def test_humanoid_reward_punishes_sinking(height: float, term: float) -> None:
    observation = np.zeros((1, 76))
    observation[0, [0, 5, 53, 54]] = height, 1.5, 1.0, 0.8
    action = np.full((1, 21), 0.5)
    np.testing.assert_allclose(
        Humanoid().reward(observation, action), [1.5 + 0.1 + 0.8 + term - 0.002 * 21 * 0.25], atol=1e-9
    )
    assert Humanoid().terminated(observation)[0] == (height < 0.74)


@pytest.mark.parametrize(("height", "term"), [(0.5, 0.3), (-0.1, 0.2), (-0.4, -200 * 0.1**2)])
def test_hopper_reward_is_speed_height_angle_and_effort(height: float, term: float) -> None:
    observation = np.zeros((1, 11))
    observation[0, [0, 1, 5]] = height, 0.2, 3.0
    expected = 3.0 + term + 1 - 0.2**2 / (np.pi / 6) ** 2 - 0.1 * (0.25 + 1 + 0)
    np.testing.assert_allclose(Hopper().reward(observation, row(0.5, -1, 0)), [expected])


def test_hopper_ends_below_its_lowest_height() -> None:
    observation = np.zeros((2, 11))
    observation[:, 0] = -0.46, -0.44
    assert Hopper().terminated(observation).tolist() == [True, False]


def test_planar_robots_do_not_see_their_x() -> None:
    position, velocity = np.arange(9.0)[None], 10 + np.arange(9.0)[None]
    observed = Cheetah().observe(position, velocity, np.zeros((1, 6)))[0]
    assert observed.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18]
    np.testing.assert_allclose(Cheetah().reward(observed[None], np.full((1, 6), 0.5)), [10 - 0.15])


def test_cartpole_reward_weighs_angle_turn_place_and_speed() -> None:
    observed = CartPole().observe(row(0.5, np.pi / 2), row(2.0, -3.0), row(0.0))
    np.testing.assert_allclose(observed, row(0.5, 2.0, 1.0, 0.0, -3.0), atol=1e-12)
    expected = -((np.pi / 2) ** 2 + 0.1 * 9 + 0.05 * 0.25 + 0.1 * 4)
    np.testing.assert_allclose(CartPole().reward(observed, row(1.0)), [expected])


def test_pendulum_reward_is_that_of_the_classic_task() -> None:
    observed = Pendulum().observe(row(7.0), row(-2.0), row(0.0))
    angle = 7.0 - 2 * np.pi
    np.testing.assert_allclose(
        Pendulum().reward(observed, row(0.5)), [-(angle**2 + 0.1 * 4 + 0.001 * 1.0**2)]
    )
