"""The verdict does not fool itself: rarely "skill" on noise, nearly always on skill."""

import numpy as np
import pytest

from eigen2.evaluation.overfitting import effective_trials
from eigen2.evaluation.verdict import EVIDENCE, NO_EVIDENCE, compare, market_neutral, skill_verdict
from eigen2.market.frequency import EXCHANGE
from eigen2.seeds import generator

AGENTS, GENERATIONS, VALIDATION, HOLDOUT = 16, 25, 252, 251


def run_of_trials(seed, skill=0.0):
    """Daily log returns [trial, day] of a whole run and of equal weight [day], over validation and holdout days.

    Trials share the market at different exposures (part cash), a taste common to the population, a taste of their
    lineage, and fat-tailed noise of their own; they pay for trading. `skill` is an annual information ratio.
    """
    rng = generator(seed, "simulated run")
    days, count = VALIDATION + HOLDOUT, AGENTS * GENERATIONS
    market = 0.0004 + 0.01 * rng.standard_t(4, size=days) / np.sqrt(2)
    exposure = rng.uniform(0.4, 1.0, size=(count, 1))
    lineage = rng.normal(size=(AGENTS, days))[rng.integers(AGENTS, size=count)]
    own = rng.standard_t(4, size=(count, days)) / np.sqrt(2)
    bets = 0.004 * (0.6 * rng.normal(size=days) + 0.6 * lineage + 0.5 * own) / np.sqrt(0.97)
    return exposure * market + bets - 0.00002 + skill * 0.004 / np.sqrt(252), market


def verdicts(seed, skill=0.0):
    """(on the holdout, on the validation days) for the trial that was best on validation."""
    trials, market = run_of_trials(seed, skill)
    chosen = int(trials[:, :VALIDATION].mean(axis=1).argmax())
    alpha, _ = market_neutral(trials[:, :VALIDATION], market[:VALIDATION])
    effective = effective_trials(alpha, generator(seed, "effective"), draws=256)
    out = []
    for days, candidates in ((slice(VALIDATION, None), 1.0), (slice(VALIDATION), effective)):
        paired = compare(
            trials[chosen, days], market[days], EXCHANGE, generator(seed, "bootstrap"), draws=500
        )
        out.append(skill_verdict(paired, candidates, trades=1, split="x").evidence_of_skill)
    return out


@pytest.mark.parametrize("runs", [80, pytest.param(1000, marks=pytest.mark.slow)])
def test_worthless_champions_chosen_from_400_trials_are_called_skilled_in_at_most_3_of_100_runs(runs):
    holdout, validation = np.sum([verdicts(seed) for seed in range(runs)], axis=0) / runs
    assert holdout <= 0.03
    assert validation <= 0.05


def test_strong_skill_is_found_in_more_than_80_of_100_runs():
    runs = 25
    holdout, _ = np.sum([verdicts(seed, skill=4.5) for seed in range(runs)], axis=0) / runs
    assert holdout >= 0.8


def simulated(beta, alpha, days=1000, market_drift=0.0005, seed=0):
    rng = generator(seed, "pair")
    market = market_drift + 0.01 * rng.normal(size=days)
    return beta * market + alpha + 0.003 * rng.normal(size=days), market


def verdict_on(champion, market, candidates=1.0, trades=10):
    return skill_verdict(
        compare(champion, market, EXCHANGE, generator(0, "b")), candidates, trades, "holdout"
    )


def test_skill_is_seen_through_half_an_exposure():
    found = verdict_on(*simulated(beta=0.5, alpha=0.001))
    assert found.evidence_of_skill
    assert found.sentence.startswith(EVIDENCE + ": ")


def test_sitting_half_in_cash_through_a_crash_is_not_skill():
    champion, market = simulated(beta=0.5, alpha=0.0, market_drift=-0.002)
    paired = compare(champion, market, EXCHANGE, generator(0, "b"))
    assert paired.excess.ci_98.low > 0.0
    assert not skill_verdict(paired, 1.0, 10, "holdout").evidence_of_skill


def test_what_earned_less_than_equal_weight_is_not_called_skill():
    champion, market = simulated(beta=0.2, alpha=0.0005, market_drift=0.002)
    found = verdict_on(champion, market)
    assert found.probability > 0.95
    assert not found.evidence_of_skill
    assert "less than equal weight" in found.sentence


def test_many_champions_shown_to_one_holdout_raise_the_bar():
    champion, market = simulated(beta=1.0, alpha=0.0003, seed=3)
    fresh, worn = verdict_on(champion, market), verdict_on(champion, market, candidates=1000.0)
    assert fresh.evidence_of_skill
    assert not worn.evidence_of_skill
    assert "best of 1000 candidates" in worn.sentence


def test_a_champion_that_never_trades_gets_a_defined_verdict():
    _, market = simulated(beta=0.0, alpha=0.0)
    found = verdict_on(np.zeros(1000), market, trades=0)
    assert not found.evidence_of_skill
    assert found.sentence == f"{NO_EVIDENCE}: the champion never traded"
    assert found.probability is None


def test_equal_weight_itself_has_no_skill():
    _, market = simulated(beta=0.0, alpha=0.0)
    found = verdict_on(market.copy(), market)
    assert not found.evidence_of_skill
    assert "exactly what equal weight earned" in found.sentence


def test_alpha_and_beta_are_those_of_least_squares():
    champion, market = simulated(beta=0.7, alpha=0.001)
    slope, intercept = np.polyfit(market, champion, 1)
    alpha, beta = market_neutral(champion, market)
    assert beta == pytest.approx(slope)
    assert alpha.mean() == pytest.approx(intercept)
