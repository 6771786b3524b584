"""The oracle of a planted market: its scores turned into actions, under the same rules and costs as everyone.

How eagerly to act on a score is not part of the planted rule: it is tuned on training days, by playing a small grid
of settings through the real core, all at once. Strong, but not an upper bound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import Observation, TradingCore
from eigen2.envs.trading.weights import LOGIT_BOUND
from eigen2.evaluation.backtest import Policy, Strategy, run_policy
from eigen2.market.catalogue import canonical_name
from eigen2.market.data import FloatArray, MarketData
from eigen2.market.oracles import HOLDING_DAYS, oracle_scores

OPEN_QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""A position is asked for when its score is above this quantile of the training days' scores."""
EXIT_QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
"""A holding is sold when its score falls below this one (`orders`)."""
TARGETS = (0.0, 0.5, 1.0)
"""Sale targets tried."""
SHARPNESS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
"""Logits per standard deviation of the scores (`weights`)."""
STICKINESS = (0.0, 0.25, 0.5, 1.0)
"""Head start of a symbol that is held, in standard deviations of the scores: turnover costs money (`weights`)."""


@dataclass(frozen=True)
class Settings:
    """Grid points [B]; each is one portfolio of the tuning core. Later the best alone, B = 1, for any batch."""

    first: FloatArray
    second: FloatArray
    target: FloatArray

    def __len__(self) -> int:
        return len(self.first)

    def only(self, row: int) -> "Settings":
        return Settings(self.first[row : row + 1], self.second[row : row + 1], self.target[row : row + 1])


def has_oracle(data: str) -> bool:
    """Whether `env.data` names a market with a planted rule."""
    return canonical_name(data) in HOLDING_DAYS


def oracle_benchmark(market: MarketData, config: TradingConfig, seed: int) -> Strategy:
    """The tuned oracle of a planted market loaded with the same `config` and `seed`."""
    scores = oracle_scores(config.data, config, seed)[:, market.tradable].astype(np.float64)
    training = scores[market.train.start : market.train.stop]
    acts, grid = (
        (_weights, _weights_grid(training))
        if config.actions == "weights"
        else (_orders, _orders_grid(training))
    )
    core = TradingCore(market, config, len(grid))
    tuned = run_policy(core, _policy(acts, scores, grid), market.train).log_returns.sum(axis=1)
    return Strategy("oracle", config, _policy(acts, scores, grid.only(int(tuned.argmax()))))


def _policy(
    acts: Callable[[FloatArray, Settings, Observation], FloatArray], scores: FloatArray, settings: Settings
) -> Policy:
    def policy(
        observation: Observation, market: MarketData, config: TradingConfig
    ) -> npt.NDArray[np.floating]:
        return acts(scores[observation.day], settings, observation)

    return policy


def _orders_grid(training: FloatArray) -> Settings:
    """Absolute score thresholds (open above `first`, sell below `second`) and targets."""
    points = [p for p in product(OPEN_QUANTILES, EXIT_QUANTILES, TARGETS) if p[1] <= p[0]]
    opens, exits, targets = np.array(points).T
    return Settings(np.quantile(training, opens), np.quantile(training, exits), targets)


def _orders(scores: FloatArray, settings: Settings, seen: Observation) -> FloatArray:
    """`orders` action [B, N, 2]; among those above the threshold the highest score asks loudest."""
    low, high = scores.min(axis=1, keepdims=True), scores.max(axis=1, keepdims=True)
    loudness = 0.9 + 0.1 * (scores - low) / np.maximum(high - low, 1e-12)
    action = np.empty((*scores.shape, 2))
    action[:, :, 0] = np.where(scores > settings.first[:, None], loudness, 0.0)
    action[:, :, 0][scores < settings.second[:, None]] = -1.0
    action[:, :, 1] = settings.target[:, None]
    return action


def _weights_grid(training: FloatArray) -> Settings:
    """`first` is the sharpness in logits per unit of score, `second` the head start of a holding in units of score."""
    deviation = max(float(training.std()), 1e-12)
    sharpness, stickiness = np.array(list(product(SHARPNESS, STICKINESS))).T
    return Settings(sharpness / deviation, stickiness * deviation, np.zeros_like(sharpness))


def _weights(scores: FloatArray, settings: Settings, seen: Observation) -> FloatArray:
    """`weights` action [B, N + 1]: fully invested, softmax of the scores; a holding is at least half an equal share."""
    held = seen.positions[:, :, 0] > 0.5 / scores.shape[1]
    logits = (scores + held * settings.second[:, None]) * settings.first[:, None]
    logits += LOGIT_BOUND - logits.max(axis=1, keepdims=True)
    bottom = np.full((len(logits), 1), -LOGIT_BOUND)
    return np.concatenate([np.maximum(logits, -LOGIT_BOUND), bottom], axis=1)
