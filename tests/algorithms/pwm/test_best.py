"""Rollback: how much was lost, when it is too much, and what is restored."""

import numpy as np
import pytest
import torch

from eigen2.algorithms.pwm.best import Best, rollback_threshold
from eigen2.algorithms.pwm.trainer import PWMTrainer
from eigen2.envs.control.catalogue import make_task


def recorded(*scores):
    best = Best()
    for iteration, score in enumerate(scores):
        best.record(score, iteration, dict)
    return best


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (-1700.0, 1.0), (3.0, 250.0)])
def test_what_is_lost_is_a_part_of_the_gain_whatever_the_rewards_unit_and_sign(shift, scale):
    best = recorded(*(shift + scale * score for score in (20.0, 10.0, 30.0, 110.0, 60.0)))
    assert best.iteration == 3
    assert [best.lost(shift + scale * score) for score in (110.0, 60.0, 10.0)] == pytest.approx([0, 0.5, 1])


def test_nothing_is_lost_before_anything_was_gained():
    assert recorded(5.0).lost(5.0) == 0.0
    assert recorded(5.0, 5.0).iteration == 0


def test_the_threshold_falls_with_the_learning_rates_in_the_last_fifth():
    assert [rollback_threshold(scale, True) for scale in (1.0, 0.2, 0.1, 0.02)] == [1.0, 1.0, 0.5, 0.1]
    assert rollback_threshold(0.02, False) == 1.0


def run_with_a_better_past(config, iterations_after):
    """Trains two iterations, calls them a triumph, trains on. -> trainer, the triumph's weights, metrics after it"""
    trainer = PWMTrainer(config, make_task("dflex_hopper"), 5, capacity=1000)
    for _ in range(2):
        trainer.step()
    trainer.best.record(-1e6, 1, dict)
    trainer.best.record(1e6, 2, trainer._weights)
    triumph = trainer._weights()
    return trainer, triumph, [trainer.step() for _ in range(iterations_after)]


def same(first, second):
    return all(
        torch.equal(value, second["agent"][part][name])
        for part, weights in first["agent"].items()
        for name, value in weights.items()
    )


def test_a_fallen_policy_is_replaced_by_the_best_one(tiny):
    trainer, triumph, metrics = run_with_a_better_past(tiny(iterations=6, evaluate_every=10), 4)
    assert metrics[-1]["rollback_to"] == 2.0
    assert metrics[-1]["eval_return"] < 1e4  # what was measured, not what was restored
    assert same(trainer._weights(), triumph)
    for name, value in triumph["observations"].items():
        np.testing.assert_array_equal(trainer.collector.observations.state_dict()[name], value)
    assert len(trainer.replay) == 4 * (16 + 6 * 4)  # experience is never dropped


def test_the_best_policy_is_not_restored_to_itself_at_the_end(tiny):
    trainer = PWMTrainer(tiny(iterations=4, evaluate_every=10), make_task("dflex_hopper"), 5, capacity=1000)
    metrics = [trainer.step() for _ in range(4)]
    assert "eval_return" in metrics[-1]
    assert "rollback_to" not in metrics[-1]


def test_while_learning_rates_are_high_a_bad_evaluation_restores_nothing(tiny):
    trainer, triumph, metrics = run_with_a_better_past(tiny(iterations=60, evaluate_every=3), 4)
    assert "eval_return" in metrics[0]
    assert not any("rollback_to" in record for record in metrics)
    assert not same(trainer._weights(), triumph)


def test_rollback_can_be_turned_off(tiny):
    trainer, triumph, metrics = run_with_a_better_past(
        tiny(iterations=6, evaluate_every=10, rollback=False), 4
    )
    assert "rollback_to" not in metrics[-1]
    assert not same(trainer._weights(), triumph)
