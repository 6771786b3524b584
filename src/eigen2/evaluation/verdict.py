"""The rule that decides whether a result is called skill.

**The rule.** There is evidence of skill on a split when all of these hold:

1. the champion traded at all;
2. at equal risk it earned more than equal-weight buy and hold, after costs: both scaled to the same volatility by cash,
   or by borrowing at 0 %. So a champion that was half in cash is not called worse for having risked half;
3. the confidence interval of its mean daily *alpha* lies above zero. Alpha is its return minus beta times the
   return of equal weight on the same day: what it earned beyond equal weight held at its own market exposure. The
   interval is a 98 % one (an error of 1 % above) for a single champion, and wider when the split was shown several:
   together they keep that error (Sidak);
4. the deflated Sharpe ratio of alpha is above 0.95, deflated for the candidates among which *this split* could
   choose: on the holdout the number of different champions and policies that were shown to it, by whichever run; on
   validation days the effective number of trials of the run;
5. the split did not choose the champion. On validation days there is never evidence for one that was chosen there.

**Why so.** Pairing with equal weight takes the market's own drift away, which alone makes raw Sharpe ratios of
worthless champions pass tests. Beta must be taken away too: a champion that is half in cash is no genius in a
falling year and no fool in a rising one, and the market's swings would drown what it knows. A holdout took no part in
the choice, so the trials of the run need no correction there; using it repeatedly does. The probability of backtest
overfitting is shown and does not decide: in a population that has converged the candidates are nearly equal, choosing
among them is a coin flip, and PBO is near one half with real skill and without.
"""

from dataclasses import dataclass, replace

import numpy as np

from eigen2.evaluation.overfitting import deflated_sharpe
from eigen2.evaluation.power import DEFLATED_LEVEL, error_of_one, power
from eigen2.evaluation.statistics import DRAWS, Interval, mean_and_error, moves, sharpe, studentised
from eigen2.market.data import FloatArray
from eigen2.market.frequency import Frequency

EVIDENCE = "evidence of skill"
NO_EVIDENCE = "no evidence of skill"
ADVICE = "without evidence, hold equal weight"
TAIL_DRAWS = 10
"""Resamples that the deciding end of an interval rests on, at least."""
MOST_DRAWS = 40_000


@dataclass(frozen=True)
class Edge:
    """A daily difference to equal weight, over a year."""

    annual: float
    ci: Interval
    """95 % interval, for reading."""
    deciding: Interval
    """The interval of rule 3."""
    level: float
    """Its level: 0.98 for one candidate."""
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
    equal_risk: float | None
    """Annual return above equal weight when the champion is scaled to its volatility; None when it does not move."""
    frequency: Frequency
    """What a day of these series is, and how many are a year."""
    candidates: int
    """Different champions that were shown to these days."""


@dataclass(frozen=True)
class Verdict:
    evidence_of_skill: bool
    sentence: str
    """Plain words: the verdict, then why, and what to do without evidence."""
    probability: float | None
    """Deflated Sharpe ratio of alpha on this split, see rule 4."""
    candidates: float
    """For which it is deflated."""


def compare(
    champion: FloatArray,
    equal_weight: FloatArray,
    frequency: Frequency,
    generator: np.random.Generator,
    draws: int = DRAWS,
    candidates: int = 1,
) -> Comparison:
    """Pairs two series of daily log returns `[day]`; intervals by the studentised block bootstrap."""
    per_year = frequency.periods_per_year
    own, market = np.expm1(champion), np.expm1(equal_weight)
    alpha, beta = market_neutral(own, market)
    level = 1.0 - 2.0 * error_of_one(candidates)
    return Comparison(
        days=len(champion),
        excess=edge(champion - equal_weight, per_year, generator, draws, level),
        beta=float(beta),
        alpha=edge(alpha, per_year, generator, draws, level),
        alpha_series=alpha,
        equal_risk=at_equal_risk(own, market, per_year),
        frequency=frequency,
        candidates=candidates,
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


def at_equal_risk(returns: FloatArray, market: FloatArray, per_year: float) -> float | None:
    """Mean annual difference of `returns` and `market` `[day]`, the former scaled to the volatility of the latter."""
    if not moves(returns):
        return None
    scaled = returns * (float(market.std()) / float(returns.std()))
    return float((scaled.mean() - market.mean()) * per_year)


def skill_verdict(comparison: Comparison, trades: int, split: str, trials: float | None = None) -> Verdict:
    """The rule applied; `trials` is the effective number among which the champion was chosen on these very days."""
    candidates = float(comparison.candidates) if trials is None else max(1.0, trials)
    probability = deflated_sharpe(comparison.alpha_series, candidates)
    found, words = False, f"{NO_EVIDENCE}: the champion never traded; {ADVICE}"
    if trades and trials is not None:
        words = (
            f"{NO_EVIDENCE} yet: {_earned(comparison, split)}. It was chosen on these days, so they prove nothing: "
            "the holdout decides"
        )
    elif trades:
        missing, earned = _missing(comparison, probability), _earned(comparison, split)
        found = missing is None
        words = (
            f"{EVIDENCE}: {earned}, more than luck explains"
            if found
            else f"{NO_EVIDENCE}: {earned}{missing}. {_power(comparison)}; {ADVICE}"
        )
    return Verdict(found, words, probability, candidates)


def beside_ridge(verdict: Verdict, over_ridge: Edge) -> Verdict:
    """The verdict with a sentence about the quant's own baseline."""
    if over_ridge.sharpe is None and over_ridge.annual == 0.0:
        words = "It earned exactly what ridge regression on the same features earned"
    else:
        side = "more" if over_ridge.annual >= 0.0 else "less"
        words = (
            f"It earned {abs(over_ridge.annual):.1%} a year {side} than ridge regression on the same features "
            f"(95 % interval {over_ridge.ci.low:+.1%} to {over_ridge.ci.high:+.1%})"
        )
    return replace(verdict, sentence=f"{verdict.sentence}. {words}")


def _missing(comparison: Comparison, probability: float | None) -> str | None:
    """What the champion lacks, or None."""
    if comparison.equal_risk is None or comparison.equal_risk <= 0.0:
        return ""
    if comparison.alpha.deciding.low > 0.0 and probability is not None and probability > DEFLATED_LEVEL:
        return None
    if comparison.candidates == 1:
        return ", which luck can explain"
    return f", not enough for the best of {comparison.candidates} candidates compared on these days"


def _power(comparison: Comparison) -> str:
    """How often the test finds a skill that is there."""
    year, period = comparison.frequency.periods_per_year, comparison.frequency.period
    shares = (power(true, comparison.days, year, comparison.candidates) for true in (1.0, 2.0, 3.0))
    one, two, three = (min(99, max(1, round(100.0 * share))) for share in shares)
    return (
        f"{comparison.days} {period}s find a true Sharpe ratio of 2 beyond the market in {two} of 100 cases "
        f"(1 in {one}, 3 in {three})"
    )


def _earned(comparison: Comparison, split: str) -> str:
    excess, alpha = comparison.excess, comparison.alpha
    length = f"{comparison.days} {split} {comparison.frequency.period}s"
    if excess.annual == 0.0 and excess.sharpe is None:
        return f"over {length} it earned exactly what equal weight earned"
    side = "more" if excess.annual >= 0.0 else "less"
    low_risk = ""
    if excess.annual < 0.0 < (comparison.equal_risk or 0.0):
        low_risk = f" but risked less (at equal risk {comparison.equal_risk:.1%} more)"
    return (
        f"over {length} it earned {abs(excess.annual):.1%} a year {side} than equal weight{low_risk}, "
        f"and {alpha.annual:+.1%} ({100 * alpha.level:.3g} % interval {alpha.deciding.low:+.1%} to "
        f"{alpha.deciding.high:+.1%}) against equal weight at its own market exposure"
    )


def edge(
    series: FloatArray, per_year: int, generator: np.random.Generator, draws: int = DRAWS, level: float = 0.98
) -> Edge:
    """Mean of daily differences `[day]`, a year, with its intervals."""
    annual = float(series.mean() * per_year)
    if not moves(series):
        exact = Interval(annual, annual)
        return Edge(annual, exact, exact, level, None)
    enough = min(MOST_DRAWS, max(draws, round(2 * TAIL_DRAWS / (1.0 - level))))
    read, decide = (
        Interval(found.low * per_year, found.high * per_year)
        for found in studentised(series, mean_and_error, generator, enough, (0.95, level))
    )
    return Edge(annual, read, decide, level, sharpe(series, per_year))
