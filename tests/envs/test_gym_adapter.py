"""Any continuous Gymnasium environment works; others are refused with a sentence."""

import gymnasium
import numpy as np
import pytest

from eigen2.envs.config import GymConfig
from eigen2.envs.gym import GymBatch, make_gym
from eigen2.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CartPole-v1", "continuous actions"),
        ("Pendulm-v1", "nearest is Pendulum-v1"),
        ("pendulum-v1", "nearest is Pendulum-v1"),
        ("Pendulum-v77", "nearest is Pendulum-v"),
        ("no_such_module:Thing-v0", "needs a Python module that is not installed"),
        ("eigen2/Trading-v0", "observation space"),
    ],
)
def test_environments_we_cannot_act_in_are_refused_by_name(name, message):
    with pytest.raises(ConfigError, match=message) as failure:
        make_gym(GymConfig(id=name))
    assert f"env.id={name}" in str(failure.value)


def test_a_missing_package_names_the_extra_to_install(monkeypatch):
    def without_simulator():
        raise gymnasium.error.DependencyNotInstalled("MuJoCo is not installed")

    monkeypatch.setitem(
        gymnasium.registry,
        "NeedsSimulator-v0",
        gymnasium.envs.registration.EnvSpec(id="NeedsSimulator-v0", entry_point=without_simulator),
    )
    with pytest.raises(ConfigError, match=r"pip install eigen2\[control\]"):
        make_gym(GymConfig(id="NeedsSimulator-v0"))


def test_episodes_depend_on_their_seed_alone():
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1.0, 1.0, (30, 3, 1))
    batch, single = GymBatch(GymConfig(), 3), GymBatch(GymConfig(), 1)
    first = batch.reset([4, 5, 6])
    together = [batch.step(action) for action in actions]
    for index, seed in enumerate([4, 5, 6]):
        np.testing.assert_array_equal(single.reset([seed])[0], first[index])
        for action, step in zip(actions, together, strict=True):
            alone = single.step(action[index : index + 1])
            np.testing.assert_array_equal(alone.observation[0], step.observation[index])
            assert alone.reward[0] == step.reward[index]


def test_actions_are_stretched_from_unit_range_to_the_box():
    batch, env = GymBatch(GymConfig(), 1), gymnasium.make("Pendulum-v1")
    batch.reset([7])
    env.reset(seed=7)
    for unit, torque in [(-1.0, -2.0), (0.25, 0.5), (1.0, 2.0), (5.0, 2.0)]:
        step = batch.step(np.array([[unit]]))
        observation, reward, *_ = env.step(np.array([torque], np.float32))
        np.testing.assert_array_equal(step.observation[0], observation)
        assert step.reward[0] == reward


def test_finished_episodes_stay_frozen_and_truncation_is_told_from_termination():
    batch = GymBatch(GymConfig(max_episode_steps=4), 2)
    assert batch.max_episode_steps == 4
    batch.reset([0, 1])
    steps = [batch.step(np.zeros((2, 1))) for _ in range(6)]
    assert [bool(step.truncated.all()) for step in steps] == [False, False, False, True, True, True]
    assert not steps[-1].terminated.any()
    assert not steps[4].reward.any()
    np.testing.assert_array_equal(steps[3].observation, steps[5].observation)


def test_fewer_seeds_than_copies_leave_the_rest_idle():
    batch = GymBatch(GymConfig(), 3)
    batch.reset([1])
    assert batch.done.tolist() == [False, True, True]
    with pytest.raises(ValueError, match="4 seeds for 3"):
        batch.reset([1, 2, 3, 4])


def test_bad_actions_are_refused():
    batch = GymBatch(GymConfig(), 2)
    batch.reset([1, 2])
    with pytest.raises(ValueError, match="shape"):
        batch.step(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="finite"):
        batch.step(np.full((2, 1), np.nan))
