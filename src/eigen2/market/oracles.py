"""What a trader who knows the planted rule expects, day by day.

A score of day t is the expected log return, in excess of the mean over symbols, of holding a symbol over the days
t + 2 ... t + 1 + H: a decision on day t's close is filled at the close of t + 1. It uses prices up to day t and
the rule, its parameters included. Strong, but not an upper bound: how to trade on scores after costs is another
question.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from eigen2.errors import ConfigError
from eigen2.market import synthetic
from eigen2.market.catalogue import canonical_name
from eigen2.market.config import MarketConfig
from eigen2.market.data import FloatArray
from eigen2.market.load import used_days

HOLDING_DAYS: Final = {"planted_reversal": 3, "planted_momentum": 10, "planted_lead_lag": 4}
"""H, the days a score speaks about."""

DELAY: Final = 2
"""A decision on day t earns nothing before day t + 2."""


def oracle_scores(
    market_name: str, config: MarketConfig, seed: int, *, hidden: bool = False
) -> npt.NDArray[np.float32]:
    """Expected excess log return of each symbol, [day, symbol], on the days of `load_market(config, seed)`.

    The momentum oracle filters the regimes from returns by Bayes' rule. With `hidden=True` it is told the true
    regime of day t instead, which no trader could know: about half as much again can be earned then.
    """
    name = canonical_name(market_name)
    if name not in HOLDING_DAYS:
        raise ConfigError(
            f"{market_name} has no planted rule and no oracle; these have: {', '.join(HOLDING_DAYS)}"
        )
    made = config.synthetic
    made_seed = synthetic.market_seed(made, seed)
    prices = synthetic.generate(name, made, made_seed)
    returns = np.diff(np.log(prices.close), axis=0, prepend=np.log(synthetic.FIRST_PRICE))
    excess = returns - returns.mean(axis=1, keepdims=True)
    if hidden and name == "planted_momentum":
        scores = _momentum(synthetic.regimes(made, made_seed).astype(np.float64), made.strength)
    else:
        scores = expected_excess(name, excess, made.strength)
    start, stop = used_days(prices, config)
    centred: FloatArray = scores - scores.mean(axis=1, keepdims=True)
    return centred[start:stop].astype(np.float32)


def expected_excess(name: str, excess: FloatArray, strength: float) -> FloatArray:
    """Scores [day, symbol] from excess returns [day, symbol] and the rule alone; row t uses rows up to t."""
    if name == "planted_reversal":
        return _reversal(excess, strength)
    if name == "planted_lead_lag":
        return _lead_lag(excess, strength)
    return _momentum(regime_probability(excess, strength), strength)


def _lagged(values: FloatArray, lag: int) -> FloatArray:
    """values[t - lag] at t; zero before the first day."""
    out = np.zeros_like(values)
    out[lag:] = values[: len(values) - lag]
    return out


def _reversal(excess: FloatArray, strength: float) -> FloatArray:
    """Runs the rule forward from what is known on day t, future noise being zero."""
    kernel = -synthetic.REVERSAL * strength * synthetic.REVERSAL_KERNEL
    past = [_lagged(excess, lag) for lag in range(len(kernel))]
    expected = []
    for _ in range(DELAY - 1 + HOLDING_DAYS["planted_reversal"]):
        following = sum(
            (weight * value for weight, value in zip(kernel, past, strict=True)), np.zeros_like(excess)
        )
        past = [following, *past[:-1]]
        expected.append(following)
    return np.asarray(sum(expected[DELAY - 1 :]))


def _lead_lag(excess: FloatArray, strength: float) -> FloatArray:
    """Adds up the leader's excess returns that are known on day t and still to be followed."""
    days, symbols = excess.shape
    leader = synthetic.leaders(symbols)
    follows = synthetic.LEAD * strength * (leader != np.arange(symbols))
    scores = np.zeros((days, symbols))
    for ahead in range(DELAY, DELAY + HOLDING_DAYS["planted_lead_lag"]):
        for lag in synthetic.LEAD_LAGS:
            if lag >= ahead:
                scores += follows * _lagged(excess, lag - ahead)[:, leader]
    return scores


def _momentum(up_probability: FloatArray, strength: float) -> FloatArray:
    """The drift expected of a regime that may have changed until then."""
    horizon = range(DELAY, DELAY + HOLDING_DAYS["planted_momentum"])
    memory = sum((1.0 - 2.0 * synthetic.FLIP) ** ahead for ahead in horizon)
    return strength * (synthetic.UP - synthetic.DOWN) * memory * (up_probability - 0.5)


def regime_probability(excess: FloatArray, strength: float) -> FloatArray:
    """[day, symbol] P(symbol drifts up on day t | returns up to t), by the forward filter of a two-state chain.

    Demeaned over symbols, an up regime has the mean +u, a down regime -u, so the likelihood ratio of an excess
    return x is exp(2 u x / variance).
    """
    half = strength * (synthetic.UP - synthetic.DOWN) / 2.0
    odds = np.exp(2.0 * half * excess / synthetic.NOISE**2)
    out = np.empty_like(excess)
    probability = np.full(excess.shape[1], 0.5)
    for day in range(len(excess)):
        probability = probability * (1.0 - synthetic.FLIP) + (1.0 - probability) * synthetic.FLIP
        probability = probability * odds[day] / (probability * odds[day] + 1.0 - probability)
        out[day] = probability
    return out
