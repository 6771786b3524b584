"""The 95 % interval of a Sharpe ratio covers the truth as often as it says, on both sides, for 250 days."""

import numpy as np
import pytest

from eigen2.evaluation import statistics
from eigen2.seeds import generator

DAYS, TRUTH, YEAR = 250, 2.0, 252
STORMS = {"normal": (0.0, 0.0, None), "fat tails": (0.0, 0.0, 4), "GARCH": (0.10, 0.80, 6), "long storms": (0.08, 0.90, 5)}  # fmt: skip
"""GARCH(1, 1) alpha and beta, and degrees of freedom of the t innovations."""


def series(kind: str, count: int) -> np.ndarray:
    """Daily returns `[count, day]` with a Sharpe ratio of TRUTH in the long run."""
    alpha, beta, freedom = STORMS[kind]
    rng = generator(DAYS, f"coverage {kind}")
    shape = (DAYS + 300, count)
    shocks = rng.normal(size=shape) if freedom is None else rng.standard_t(freedom, size=shape)
    shocks *= 1.0 if freedom is None else np.sqrt((freedom - 2) / freedom)
    variance, steps = np.ones(count), np.empty(shape)
    for day, shock in enumerate(shocks):
        steps[day] = np.sqrt(variance) * shock
        variance = 1.0 - alpha - beta + alpha * steps[day] ** 2 + beta * variance
    returns: np.ndarray = 0.01 * (steps[300:].T + TRUTH / np.sqrt(YEAR))
    return returns


def misses(kind: str, count: int, draws: int) -> tuple[float, float]:
    """Shares of the intervals that lie above the truth, and below it."""
    above = below = 0
    for number, returns in enumerate(series(kind, count)):
        found = statistics.sharpe_interval(returns, YEAR, generator(number, "bootstrap"), draws=draws)
        assert found is not None
        above += found.low > TRUTH
        below += found.high < TRUTH
    return above / count, below / count


@pytest.mark.parametrize("kind", ["normal", "fat tails", "GARCH"])
def test_few_intervals_miss_the_truth_on_either_side(kind: str) -> None:
    above, below = misses(kind, 150, 300)
    assert above <= 0.06
    assert below <= 0.06


def test_storms_of_a_year_and_longer_hardly_lift_the_interval() -> None:
    """Such years are calm more often than not. A percentile interval lies above the truth in 10 of 100 of them."""
    above, _ = misses("long storms", 150, 300)
    assert above <= 0.07


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "fat tails", "GARCH"])
def test_about_2_5_percent_of_the_intervals_miss_the_truth_on_each_side(kind: str) -> None:
    above, below = misses(kind, 1500, 1000)
    assert 0.012 <= above <= 0.042
    assert 0.012 <= below <= 0.042
