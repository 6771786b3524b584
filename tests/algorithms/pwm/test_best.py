"""The best evaluation is kept, with its weights; training goes on from the last ones."""

import numpy as np
import torch

from eigen2.algorithms.pwm.best import Best
from eigen2.algorithms.pwm.trainer import PWMTrainer
from eigen2.envs.control.catalogue import make_task


def test_the_first_of_the_best_evaluations_is_kept():
    best = Best()
    for iteration, score in enumerate((20.0, 10.0, 110.0, 60.0, 110.0)):
        best.record(score, iteration, lambda: {"weight": score})  # noqa: B023
    assert (best.score, best.iteration, best.weights) == (110.0, 2, {"weight": 110.0})


def test_the_champion_is_the_policy_of_the_best_evaluation_and_training_goes_on_from_the_newest(tiny):
    trainer = PWMTrainer(tiny(iterations=6, evaluate_every=10), make_task("dflex_hopper"), 5, capacity=1000)
    for _ in range(2):
        trainer.step()
    trainer.best.record(1e6, 2, trainer._weights)
    triumph, acted = trainer.best_weights(), trainer.champion()
    metrics = [trainer.step() for _ in range(4)][-1]
    assert metrics["eval_return"] < trainer.best_score == 1e6
    for name, value in trainer.best_weights().items():
        torch.testing.assert_close(value, triumph[name], rtol=0, atol=0)
    observations = np.random.default_rng(0).normal(size=(5, trainer.task.observation_size)).astype(np.float32)
    np.testing.assert_array_equal(trainer.champion()(observations), acted(observations))
    assert not np.array_equal(trainer.policy()(observations), acted(observations))
