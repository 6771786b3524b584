"""What a test of so many days can find: the power of the rule in `verdict`.

The mean of a daily alpha with true annual Sharpe ratio S over T days of a year of P lies S sqrt(T / P) standard errors
above zero; the rule passes when it is seen more than `hurdle` of them above it. So the power is Phi(S sqrt(T / P) - hurdle).
"""

from eigen2.evaluation.overfitting import NORMAL, expected_maximum

ERROR = 0.01
"""Chance of a false verdict that all champions shown to one holdout share, each tested one-sided."""
DEFLATED_LEVEL = 0.95
"""What the deflated Sharpe ratio must exceed."""


def error_of_one(candidates: float) -> float:
    """The chance of a false verdict that one of so many independent candidates may take (Sidak)."""
    return float(-((1.0 - ERROR) ** (1.0 / max(1.0, candidates)) - 1.0))


def hurdle(candidates: float) -> float:
    """Standard errors above zero that the best of so many must reach."""
    interval = NORMAL.inv_cdf(1.0 - error_of_one(candidates))
    return float(max(interval, expected_maximum(candidates) + NORMAL.inv_cdf(DEFLATED_LEVEL)))


def power(sharpe: float, days: int, per_year: float, candidates: float = 1.0) -> float:
    """Share of cases in which a true annual Sharpe ratio of alpha is found on so many days."""
    return NORMAL.cdf(sharpe * (days / per_year) ** 0.5 - hurdle(candidates))
