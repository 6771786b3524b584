"""The verdict does not fool itself: rarely "skill" on noise, nearly always on skill."""

import numpy as np
import pytest

from eigen2.evaluation.overfitting import effective_trials
from eigen2.evaluation.verdict import EVIDENCE, NO_EVIDENCE, Verdict, compare, market_neutral, skill_verdict
from eigen2.market.frequency import EXCHANGE
from eigen2.seeds import generator

AGENTS, GENERATIONS, VALIDATION, HOLDOUT = 16, 25, 252, 251


def run_of_trials(seed: int, skill: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
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


def is_called_skilled(seed: int, skill: float = 0.0, others: int = 0) -> bool:
    """On the holdout, for the trial that was best on validation; `others` champions were shown to it before."""
    trials, market = run_of_trials(seed, skill)
    chosen = int(trials[:, :VALIDATION].mean(axis=1).argmax())
    days = slice(VALIDATION, None)
    paired = compare(
        trials[chosen, days], market[days], EXCHANGE, generator(seed, "b"), draws=1000, candidates=1 + others
    )
    return skill_verdict(paired, trades=1, split="holdout").evidence_of_skill


@pytest.mark.parametrize("runs", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_worthless_champions_chosen_from_400_trials_are_called_skilled_in_at_most_2_of_100_runs(
    runs: int,
) -> None:
    assert sum(is_called_skilled(seed) for seed in range(runs)) <= 0.02 * runs


def test_what_was_chosen_on_these_days_is_never_called_skilled_by_them() -> None:
    trials, market = run_of_trials(1, skill=20.0)
    days = slice(VALIDATION)
    chosen = int(trials[:, days].mean(axis=1).argmax())
    paired = compare(trials[chosen, days], market[days], EXCHANGE, generator(1, "b"))
    alpha, _ = market_neutral(trials[:, days], market[days])
    found = skill_verdict(paired, 1, "validation", effective_trials(alpha, generator(1, "e"), draws=256))
    assert found.probability is not None
    assert found.probability > 0.95
    assert not found.evidence_of_skill
    assert found.sentence.startswith(f"{NO_EVIDENCE} yet: ")
    assert "the holdout decides" in found.sentence


def test_strong_skill_is_found_in_more_than_80_of_100_runs() -> None:
    runs = 25
    assert sum(is_called_skilled(seed, skill=4.5) for seed in range(runs)) >= 0.8 * runs


def simulated(
    beta: float, alpha: float, days: int = 1000, market_drift: float = 0.0005, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    rng = generator(seed, "pair")
    market = market_drift + 0.01 * rng.normal(size=days)
    return beta * market + alpha + 0.003 * rng.normal(size=days), market


def verdict_on(champion: np.ndarray, market: np.ndarray, candidates: int = 1, trades: int = 10) -> Verdict:
    paired = compare(champion, market, EXCHANGE, generator(0, "b"), candidates=candidates)
    return skill_verdict(paired, trades, "holdout")


def test_skill_is_seen_through_half_an_exposure() -> None:
    found = verdict_on(*simulated(beta=0.5, alpha=0.001))
    assert found.evidence_of_skill
    assert found.sentence.startswith(EVIDENCE + ": ")


def test_sitting_half_in_cash_through_a_crash_is_not_skill() -> None:
    champion, market = simulated(beta=0.5, alpha=0.0, market_drift=-0.002)
    paired = compare(champion, market, EXCHANGE, generator(0, "b"))
    assert paired.excess.deciding.low > 0.0
    assert not skill_verdict(paired, 10, "holdout").evidence_of_skill


def test_a_champion_that_risked_little_is_compared_at_equal_risk() -> None:
    """Less money than equal weight in a rising market, because four fifths of it were in cash; more for its risk."""
    found = verdict_on(*simulated(beta=0.2, alpha=0.0006, market_drift=0.002))
    assert found.evidence_of_skill
    assert "less than equal weight but risked less (at equal risk" in found.sentence


def test_what_earned_less_than_equal_weight_at_equal_risk_is_not_called_skill() -> None:
    champion, market = simulated(beta=0.2, alpha=0.0004, market_drift=0.004)
    found = verdict_on(champion, market)
    assert found.probability is not None
    assert found.probability > 0.95
    assert not found.evidence_of_skill
    assert "less than equal weight, and" in found.sentence


def test_no_evidence_comes_with_the_power_of_the_test_and_with_what_to_do() -> None:
    champion, market = simulated(beta=1.0, alpha=0.0, days=251)
    sentence = verdict_on(champion, market).sentence
    assert (
        "251 days find a true Sharpe ratio of 2 beyond the market in 37 of 100 cases (1 in 9, 3 in 75)"
        in sentence
    )
    assert sentence.endswith("; without evidence, hold equal weight")


def test_many_champions_shown_to_one_holdout_raise_the_bar() -> None:
    champion, market = simulated(beta=1.0, alpha=0.0003, seed=3)
    fresh, worn = verdict_on(champion, market), verdict_on(champion, market, candidates=1000)
    assert fresh.evidence_of_skill
    assert not worn.evidence_of_skill
    assert "best of 1000 candidates" in worn.sentence


def test_a_champion_that_never_trades_gets_a_defined_verdict() -> None:
    _, market = simulated(beta=0.0, alpha=0.0)
    found = verdict_on(np.zeros(1000), market, trades=0)
    assert not found.evidence_of_skill
    assert found.sentence == f"{NO_EVIDENCE}: the champion never traded; without evidence, hold equal weight"
    assert found.probability is None


def test_equal_weight_itself_has_no_skill() -> None:
    _, market = simulated(beta=0.0, alpha=0.0)
    found = verdict_on(market.copy(), market)
    assert not found.evidence_of_skill
    assert "exactly what equal weight earned" in found.sentence


def test_alpha_and_beta_are_those_of_least_squares() -> None:
    champion, market = simulated(beta=0.7, alpha=0.001)
    slope, intercept = np.polyfit(market, champion, 1)
    alpha, beta = market_neutral(champion, market)
    assert beta == pytest.approx(slope)
    assert alpha.mean() == pytest.approx(intercept)
