"""The luck of being chosen is measured, and taken off."""

import numpy as np
import pytest

from eigen2.evaluation import overfitting
from eigen2.seeds import generator


def known(probability: float | None) -> float:
    """None is a refusal to say; here there is enough to say something."""
    assert probability is not None
    return probability


def trials_with_correlation(
    correlation: float, count: int = 200, days: int = 252, seed: int = 0
) -> np.ndarray:
    rng = generator(seed, "trials")
    common, own = rng.normal(size=days), rng.normal(size=(count, days))
    returns: np.ndarray = 0.01 * (np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own)
    return returns


def test_independent_trials_count_nearly_in_full() -> None:
    assert overfitting.effective_trials(trials_with_correlation(0.0), generator(0, "e")) > 120


def test_copies_of_one_trial_count_once() -> None:
    copies = np.repeat(trials_with_correlation(0.0, count=1), 50, axis=0)
    assert overfitting.effective_trials(copies, generator(0, "e")) == 1.0


def test_more_correlated_trials_count_less() -> None:
    counts = [
        overfitting.effective_trials(trials_with_correlation(c), generator(0, "e"))
        for c in (0.0, 0.5, 0.9, 0.99)
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < 3


def test_effective_trials_predict_the_best_of_correlated_worthless_trials() -> None:
    best = [
        np.max(t.mean(axis=1) / t.std(axis=1, ddof=1)) * np.sqrt(252)
        for t in (trials_with_correlation(0.7, seed=s) for s in range(300))
    ]
    effective = overfitting.effective_trials(trials_with_correlation(0.7), generator(0, "e"))
    assert overfitting.expected_maximum(effective) == pytest.approx(np.mean(best), abs=0.2)


def test_the_best_of_worthless_trials_is_rarely_called_real_after_deflation_but_often_before() -> None:
    raw, deflated, runs = 0, 0, 200
    for seed in range(runs):
        trials = trials_with_correlation(0.5, count=60, seed=seed)
        winner = trials[np.argmax(trials.mean(axis=1))]
        effective = overfitting.effective_trials(trials, generator(seed, "e"), draws=256)
        raw += known(overfitting.probabilistic_sharpe(winner)) > 0.95
        deflated += known(overfitting.deflated_sharpe(winner, effective)) > 0.95
    assert raw / runs > 0.3
    assert deflated / runs <= 0.1


def test_real_skill_among_the_trials_does_not_raise_the_hurdle() -> None:
    """A hurdle from the spread over the trials would grow with the skill of the best; the null's does not."""
    trials = trials_with_correlation(0.3, count=60)
    before = overfitting.effective_trials(trials, generator(0, "e"))
    skilled = trials + np.linspace(0.0, 0.004, 60)[:, None]
    after = overfitting.effective_trials(skilled, generator(0, "e"))
    assert after == pytest.approx(before)
    assert known(overfitting.deflated_sharpe(skilled[-1], after)) > 0.95


def test_overfitting_is_near_one_half_without_skill_and_near_zero_with_it() -> None:
    noise = [
        known(overfitting.backtest_overfitting(trials_with_correlation(0.0, count=30, seed=s)))
        for s in range(12)
    ]
    assert 0.3 < np.mean(noise) < 0.7
    skilled = trials_with_correlation(0.0, count=30)
    skilled[4] += 0.004
    assert known(overfitting.backtest_overfitting(skilled)) < 0.05


def test_what_cannot_be_computed_is_none() -> None:
    one = trials_with_correlation(0.0, count=1)
    assert overfitting.backtest_overfitting(one) is None
    assert overfitting.backtest_overfitting(np.repeat(one, 3, axis=0)) is None
    assert overfitting.backtest_overfitting(trials_with_correlation(0.0, days=20)) is None
    assert overfitting.probabilistic_sharpe(np.zeros(50)) is None
    assert overfitting.deflated_sharpe(np.array([0.1, 0.2]), 3) is None
    assert overfitting.effective_trials(np.zeros((5, 50)), generator(0, "e")) == 0.0


def test_an_odd_number_of_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="even"):
        overfitting.backtest_overfitting(trials_with_correlation(0.0), blocks=7)
