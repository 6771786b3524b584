"""The whole way on markets without anything to know: choose on validation, skill_verdict on the holdout."""

import numpy as np
import pytest

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.envs.trading.observation import Observation
from eigen2.evaluation.backtest import Policy, run_policy
from eigen2.evaluation.policies import equal_weight_benchmark
from eigen2.evaluation.verdict import compare, skill_verdict
from eigen2.market.data import MarketData
from eigen2.market.frequency import EXCHANGE
from eigen2.market.load import load_market
from eigen2.seeds import generator

CANDIDATES = 64


def linear(weights: np.ndarray, cash: np.ndarray) -> Policy:
    """Candidates [B] that score each symbol by a linear function of its features."""

    def policy(observation: Observation, market: MarketData, config: TradingConfig) -> np.ndarray:
        features = market.features[observation.day][:, market.tradable]
        score = np.tanh(np.einsum("bnf,bf->bn", features, weights))
        if config.actions == "weights":
            return np.concatenate([3 * score, cash[:, None]], axis=1)
        return np.stack([score, np.full_like(score, 0.7)], axis=2)

    return policy


def called_skilled(data: str, actions: str, seed: int) -> bool:
    config = TradingConfig(data=data, actions=actions)
    market = load_market(config, seed)
    rng = generator(seed, "candidates")
    weights, cash = rng.normal(size=(CANDIDATES, market.features.shape[2])), rng.normal(size=CANDIDATES) - 3
    tried = run_policy(TradingCore(market, config, CANDIDATES), linear(weights, cash), market.validation)
    best = tried.log_returns.sum(axis=1).argmax(keepdims=True)
    chosen = run_policy(TradingCore(market, config, 1), linear(weights[best], cash[best]), market.holdout)
    rival = equal_weight_benchmark(market, config, market.holdout)
    equal_weight = run_policy(TradingCore(market, rival.config, 1), rival.policy, market.holdout)
    paired = compare(
        chosen.log_returns[0], equal_weight.log_returns[0], EXCHANGE, generator(seed, "bootstrap")
    )
    return skill_verdict(paired, int(chosen.trades[0]), "holdout").evidence_of_skill


@pytest.mark.parametrize("runs", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("actions", ["orders", "weights"])
@pytest.mark.parametrize("data", ["shuffled", "random_walk"])
def test_the_best_of_64_on_a_market_without_skill_is_called_skilled_at_most_once_in_20_runs(
    data: str, actions: str, runs: int
) -> None:
    assert sum(called_skilled(data, actions, seed) for seed in range(runs)) <= (runs >= 20)
