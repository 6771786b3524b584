"""The rule that decides whether a result is called skill.

**The rule.** There is evidence of skill on a split when all of these hold:

1. the champion traded at all;
2. it earned more than equal-weight buy and hold, after costs;
3. the 98 % confidence interval of its mean daily *alpha* lies above zero. Alpha is its return minus beta times the
   return of equal weight on the same day: what it earned beyond equal weight held at its own market exposure;
4. the deflated Sharpe ratio of alpha is above 0.95, deflated for the candidates among which *this split* could
   choose: on validation days the effective number of trials of the run, on the holdout the number of different
   champions that were shown to it (1 for a holdout opened once).

**Why so.** Pairing with equal weight takes the market's own drift away, which alone makes raw Sharpe ratios of
worthless champions pass tests. Beta must be taken away too: a champion that is half in cash is no genius in a
falling year and no fool in a rising one, and the market's swings would drown what it knows. Rule 2 keeps the words
plain: what earned less than equal weight is not called skill. A holdout took no part in the choice, so the trials of
the run need no correction there; using it repeatedly does. 98 % (an error of 1 % above) and not 95 %, because the
bootstrap interval of 250 fat-tailed days is a little too narrow, and a project that trains twenty runs on noise should
expect no false positive. The probability of backtest overfitting is shown and does not decide: in a population that has
converged the candidates are nearly equal, choosing among them is a coin flip, and PBO is near one half with real
skill and without.

**Measured**, by simulation with 500 bootstrap draws. Worthless champions, the best of 400 correlated trials on 252
validation days, evaluated on 251 fresh days: 8 of 600 false positives without costs, 7 of 600 with. Real skill of
an annual information ratio of 3, without costs: found in 81 of 100 runs. Weaker skill needs a longer holdout.
"""

from dataclasses import dataclass

import numpy as np

from eigen2.evaluation.overfitting import deflated_sharpe
from eigen2.evaluation.statistics import DRAWS, Interval, bootstrap, interval, moves, sharpe
from eigen2.market.data import FloatArray
from eigen2.market.frequency import Frequency

LEVEL = 0.98
DEFLATED_LEVEL = 0.95
EVIDENCE = "evidence of skill"
NO_EVIDENCE = "no evidence of skill"


@dataclass(frozen=True)
class Edge:
    """A daily difference to equal weight, over a year."""

    annual: float
    ci: Interval
    """95 % interval, for reading."""
    ci_98: Interval
    """98 % interval, for deciding."""
    sharpe: float | None
    """Annualised mean / deviation."""


@dataclass(frozen=True)
class Comparison:
    """A champion against equal weight, paired day by day."""

    days: int
    excess: Edge
    """Log return minus log return."""
    beta: float
    alpha: Edge
    """Return minus beta x return."""
    alpha_series: FloatArray
    """[day]"""
    frequency: Frequency
    """What a day of these series is, and how many are a year."""


@dataclass(frozen=True)
class Verdict:
    evidence_of_skill: bool
    sentence: str
    """Plain words: the verdict, then why."""
    probability: float | None
    """Deflated Sharpe ratio of alpha on this split, see rule 4."""


def compare(
    champion: FloatArray,
    equal_weight: FloatArray,
    frequency: Frequency,
    generator: np.random.Generator,
    draws: int = DRAWS,
) -> Comparison:
    """Pairs two series of daily log returns `[day]`; intervals by the stationary block bootstrap."""
    per_year = frequency.periods_per_year
    alpha, beta = market_neutral(np.expm1(champion), np.expm1(equal_weight))
    return Comparison(
        days=len(champion),
        excess=_edge(champion - equal_weight, per_year, generator, draws),
        beta=float(beta),
        alpha=_edge(alpha, per_year, generator, draws),
        alpha_series=alpha,
        frequency=frequency,
    )


def market_neutral(returns: FloatArray, market: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(alpha `[..., day]`, beta `[...]`) of returns `[..., day]`; beta by least squares, and not below 0.

    A long-only portfolio has no negative exposure; an estimate below zero is noise that would credit it with the
    market's drift.
    """
    swing = market - market.mean()
    power = float((swing**2).sum())
    beta = np.maximum(returns @ swing / power, 0.0) if power > 0.0 else np.zeros(returns.shape[:-1])
    return returns - np.multiply.outer(beta, market), np.asarray(beta)


def skill_verdict(comparison: Comparison, candidates: float, trades: int, split: str) -> Verdict:
    """The rule applied; `candidates` as in rule 4."""
    probability = deflated_sharpe(comparison.alpha_series, candidates)
    reason = _missing(comparison, probability, candidates) if trades else "the champion never traded"
    if not trades:
        return Verdict(False, f"{NO_EVIDENCE}: {reason}", probability)
    why = _earned(comparison, split)
    if reason is None:
        return Verdict(True, f"{EVIDENCE}: {why}, more than luck explains", probability)
    return Verdict(False, f"{NO_EVIDENCE}: {why}{reason}", probability)


def _missing(comparison: Comparison, probability: float | None, candidates: float) -> str | None:
    """What the champion lacks, or None."""
    alpha = comparison.alpha
    if comparison.excess.annual <= 0.0:
        return ""
    if alpha.ci_98.low <= 0.0:
        return ", which luck can explain"
    if probability is None or probability <= DEFLATED_LEVEL:
        return f", not enough for the best of {max(candidates, 1.0):.0f} candidates compared on these days"
    return None


def _earned(comparison: Comparison, split: str) -> str:
    excess, alpha = comparison.excess, comparison.alpha
    length = f"{comparison.days} {split} {comparison.frequency.period}s"
    if excess.annual == 0.0 and excess.sharpe is None:
        return f"over {length} it earned exactly what equal weight earned"
    side = "more" if excess.annual >= 0.0 else "less"
    return (
        f"over {length} it earned {abs(excess.annual):.1%} a year {side} than equal weight, "
        f"and {alpha.annual:+.1%} (98 % interval {alpha.ci_98.low:+.1%} to {alpha.ci_98.high:+.1%}) against equal "
        "weight at its own market exposure"
    )


def _edge(series: FloatArray, per_year: int, generator: np.random.Generator, draws: int) -> Edge:
    annual = float(series.mean() * per_year)
    if not moves(series):
        return Edge(annual, Interval(annual, annual), Interval(annual, annual), None)
    means = bootstrap(series, lambda rows: rows.mean(axis=1), generator, draws) * per_year
    return Edge(annual, interval(means, 0.95), interval(means, LEVEL), sharpe(series, per_year))
