"""Control results are shown beside random actions and standing still, from the same starts."""

import json

import numpy as np
import pytest

from eigen2.envs.config import GymConfig
from eigen2.envs.gym import GymBatch
from eigen2.evaluation.control import episode_returns, evaluate_control

CONFIG = GymConfig(id="Pendulum-v1", max_episode_steps=40)


def swing(observation):
    """Pushes in the direction of the pendulum's own speed."""
    return np.sign(observation[:, 2:3])


def test_the_fixed_fields_are_there_and_plain():
    found = evaluate_control(swing, GymBatch(CONFIG, 4), seed=3, episodes=6)
    fields = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert set(fields) >= {"mean_return", "std_return", "episodes", "random_return", "stand_still_return"}
    assert fields["episodes"] == len(fields["returns"]) == 6
    assert fields["mean_return"] == pytest.approx(np.mean(fields["returns"]))


def test_the_result_does_not_depend_on_the_size_of_the_batch():
    one, many = (evaluate_control(swing, GymBatch(CONFIG, n), seed=3, episodes=5) for n in (1, 3))
    assert one.returns == many.returns
    assert one.stand_still_return == many.stand_still_return


def test_standing_still_is_the_middle_of_the_action_space():
    found = evaluate_control(lambda o: np.zeros((len(o), 1)), GymBatch(CONFIG, 2), seed=3, episodes=4)
    assert found.mean_return == found.stand_still_return


def test_returns_are_whole_episodes():
    batch = GymBatch(CONFIG, 2)
    returns = episode_returns(swing, batch, [11, 12, 13])
    alone = np.concatenate([episode_returns(swing, GymBatch(CONFIG, 1), [seed]) for seed in (11, 12, 13)])
    assert returns == pytest.approx(alone, rel=0, abs=0)
