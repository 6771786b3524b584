"""Going back: how much was lost, when it is too much, and what is restored."""

import numpy as np
import pytest
import torch

from eigen2.envs.control.catalogue import make_task
from eigen2.pwm.best import Best
from eigen2.pwm.trainer import PWMTrainer


def judged(*scores):
    best = Best()
    for iteration, score in enumerate(scores):
        best.judge(score, iteration, dict, limit=1.0)
    return best


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (-1700.0, 1.0), (3.0, 250.0)])
def test_what_is_lost_is_a_share_of_the_gain_whatever_the_rewards_unit_and_sign(shift, scale):
    best = judged(*(shift + scale * score for score in (20.0, 10.0, 30.0, 110.0, 60.0)))
    assert best.iteration == 3
    assert [best.lost(shift + scale * score) for score in (110.0, 60.0, 10.0)] == pytest.approx([0, 0.5, 1])


def test_nothing_is_lost_before_anything_was_gained():
    assert judged(5.0).lost(5.0) == 0.0
    assert judged(5.0, 5.0).iteration == 0


def run_with_a_better_past(config, iterations_after):
    """Trains two iterations, calls them a triumph, trains on. -> trainer, the triumph's weights, metrics after it"""
    trainer = PWMTrainer(config, make_task("dflex_hopper"), 5, capacity=1000)
    for _ in range(2):
        trainer.step()
    trainer.best.judge(-1e6, 1, dict, limit=1.0)
    trainer.best.judge(1e6, 2, trainer._weights, limit=1.0)
    triumph = trainer._weights()
    return trainer, triumph, [trainer.step() for _ in range(iterations_after)]


def same(first, second):
    return all(
        torch.equal(value, second["agent"][part][name])
        for part, weights in first["agent"].items()
        for name, value in weights.items()
    )


def test_a_fallen_policy_is_given_up_for_the_best_one(tiny):
    trainer, triumph, metrics = run_with_a_better_past(tiny(iterations=6, evaluate_every=10), 4)
    assert metrics[-1]["went_back_to"] == 2.0
    assert metrics[-1]["eval_return"] < 1e4  # what was measured, not what it went back to
    triumph["agent"]["actor"] = triumph["agent"]["average_actor"]  # what was evaluated
    assert same(trainer._weights(), triumph)
    for name, value in triumph["observations"].items():
        np.testing.assert_array_equal(trainer.collector.observations.state_dict()[name], value)
    assert len(trainer.replay) == 4 * (16 + 6 * 4)  # experience is never given up


def test_while_rates_are_high_a_bad_evaluation_is_borne(tiny):
    trainer, triumph, metrics = run_with_a_better_past(tiny(iterations=60, evaluate_every=3), 4)
    assert "eval_return" in metrics[0]
    assert not any("went_back_to" in record for record in metrics)
    assert not same(trainer._weights(), triumph)


def test_going_back_can_be_turned_off(tiny):
    trainer, triumph, metrics = run_with_a_better_past(
        tiny(iterations=6, evaluate_every=10, go_back=False), 4
    )
    assert "went_back_to" not in metrics[-1]
    assert not same(trainer._weights(), triumph)
