"""How much of a champion's record is the luck of having been chosen.

The best of many worthless candidates looks good. Two classical answers, both computed from the ledger of trials:

* the *deflated Sharpe ratio* (Bailey and Lopez de Prado, 2014): the probability that the champion's true Sharpe
  ratio exceeds zero, measured against the best ratio that worthless trials would have reached;
* the *probability of backtest overfitting* (Bailey, Borwein, Lopez de Prado, Zhu, 2017): how often the best on one
  half of the days is no better than the median on the other half.

The hurdle of the deflated ratio uses the *null* variance of a Sharpe estimate, 1 / (T - 1), and not the variance
over the trials: when some trials have real skill, they spread the trials and would raise the hurdle against
themselves. Ratios here are per day, not annualised.
"""

from itertools import combinations
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from eigen2.evaluation.statistics import moves
from eigen2.market.data import FloatArray

NORMAL = NormalDist()
EULER_GAMMA = 0.5772156649015329
BLOCKS = 16
CHUNK = 1024
"""Rows (draws or splits) held in memory at a time: [1024, trial]."""


def expected_maximum(trials: float) -> float:
    """Expected maximum of `trials` independent standard normals, by the extreme-value approximation.

    (1 - g) q(1 - 1/N) + g q(1 - 1/(N e)) with the normal quantile q and Euler's g; 0 for a single trial, and never
    below it.
    """
    if trials <= 1.0:
        return 0.0
    near = NORMAL.inv_cdf(1.0 - 1.0 / trials)
    far = NORMAL.inv_cdf(1.0 - 1.0 / (trials * np.e))
    return max(0.0, (1.0 - EULER_GAMMA) * near + EULER_GAMMA * far)


def effective_trials(trials: FloatArray, generator: np.random.Generator, draws: int = 2048) -> float:
    """How many *independent* trials would be expected to reach the same best result by luck; `trials` `[trial, day]`.

    The series are standardised to Z `[trial, day]`; Z g / sqrt(day) with standard normal g is then a draw of all
    trials' mean results without skill, correlated exactly as the trials are. The mean of its maximum is matched
    with `expected_maximum`. Copies (elites are evaluated again every generation) add nothing.
    """
    distinct = distinct_trials(trials)
    distinct = distinct[[moves(row) for row in distinct]]
    if len(distinct) < 2:
        return float(len(distinct))
    scores = distinct - distinct.mean(axis=1, keepdims=True)
    scores /= np.sqrt((scores**2).sum(axis=1, keepdims=True))
    best = np.empty(draws)
    for begin in range(0, draws, CHUNK):
        rows = min(CHUNK, draws - begin)
        luck = generator.standard_normal((rows, scores.shape[1]))
        best[begin : begin + rows] = (luck @ scores.T).max(axis=1)
    return _trials_with_maximum(float(best.mean()), len(distinct))


def distinct_trials(trials: FloatArray) -> FloatArray:
    """The different rows of `[trial, day]`, in the order of their first appearance."""
    _, first = np.unique(trials, axis=0, return_index=True)
    return np.asarray(trials[np.sort(first)], dtype=np.float64)


def probabilistic_sharpe(returns: FloatArray, hurdle: float = 0.0) -> float | None:
    """Probability that the true daily Sharpe ratio of `[day]` exceeds `hurdle`; None when the series does not move.

    P = Phi((SR - hurdle) sqrt(T - 1) / sqrt(1 - skew SR + (kurtosis - 1) / 4 SR^2)), bias-corrected moments.
    """
    days = len(returns)
    if days < 4 or not moves(returns):
        return None
    ratio = float(returns.mean() / returns.std(ddof=1))
    skew, kurtosis = _skew_and_kurtosis(returns)
    variance = 1.0 - skew * ratio + (kurtosis - 1.0) / 4.0 * ratio**2
    if variance <= 0.0:
        return None
    return NORMAL.cdf((ratio - hurdle) * np.sqrt(days - 1) / np.sqrt(variance))


def deflated_sharpe(returns: FloatArray, trials: float) -> float | None:
    """Probability that the Sharpe ratio of the best of `trials` independent trials is real; `returns` `[day]`.

    The hurdle is what the best of so many worthless trials is expected to reach over as many days:
    expected_maximum(trials) / sqrt(T - 1).
    """
    if len(returns) < 4:
        return None
    return probabilistic_sharpe(returns, expected_maximum(trials) / np.sqrt(len(returns) - 1))


def backtest_overfitting(trials: FloatArray, blocks: int = BLOCKS) -> float | None:
    """Probability of backtest overfitting of `trials` `[trial, day]` by combinatorial cross-validation (CSCV).

    Days beyond a multiple of `blocks` are left out. In each of the C(blocks, blocks / 2) splits the best trial on
    one half is ranked on the other; the result is the share of splits where it is at or below the median (ties share
    their mean rank). Best is by the mean, the rule by which a champion is really chosen. None with fewer than two
    distinct trials or too few days.
    """
    if blocks < 2 or blocks % 2:
        raise ValueError(f"blocks must be even and at least 2, not {blocks}")
    rows = distinct_trials(trials)
    length = rows.shape[1] // blocks
    if len(rows) < 2 or length < 2:
        return None
    cut = rows[:, : length * blocks].reshape(len(rows), blocks, length)
    sums = cut.sum(axis=2).T
    chosen = _halves(blocks)
    overfitted = 0
    for begin in range(0, len(chosen), CHUNK):
        inside = chosen[begin : begin + CHUNK]
        train, test = inside @ sums, (1.0 - inside) @ sums
        overfitted += int(np.count_nonzero(_relative_rank(test, train.argmax(axis=1)) <= 0.5))
    return overfitted / len(chosen)


def _halves(blocks: int) -> FloatArray:
    """Membership `[split, block]` of every way to choose half of the blocks."""
    picks = np.array(list(combinations(range(blocks), blocks // 2)))
    inside = np.zeros((len(picks), blocks))
    np.put_along_axis(inside, picks, 1.0, axis=1)
    return inside


def _relative_rank(scores: FloatArray, winner: npt.NDArray[np.intp]) -> FloatArray:
    """Rank of each row's winner among `[split, trial]`, over (trials + 1); ties get their mean rank."""
    own = np.take_along_axis(scores, winner[:, None], axis=1)
    below = (scores < own).sum(axis=1)
    equal = (scores == own).sum(axis=1)
    return np.asarray((below + (equal + 1) / 2.0) / (scores.shape[1] + 1))


def _trials_with_maximum(target: float, count: int) -> float:
    """Inverse of `expected_maximum` between 1 and `count`, by bisection."""
    low, high = 1.0, float(count)
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if expected_maximum(middle) < target else (low, middle)
    return high


def _skew_and_kurtosis(returns: FloatArray) -> tuple[float, float]:
    """Bias-corrected sample skewness and kurtosis (3 for a normal), as pandas computes them."""
    n = len(returns)
    centred = returns - returns.mean()
    second, third, fourth = (float(np.mean(centred**power)) for power in (2, 3, 4))
    skew = third / second**1.5 * np.sqrt(n * (n - 1)) / (n - 2)
    excess = (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * (fourth / second**2 - 3.0) + 6.0)
    return float(skew), excess + 3.0
