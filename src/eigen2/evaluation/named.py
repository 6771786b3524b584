"""The benchmarks as policies of their own, evaluated by name and without a run: `evaluate --policy NAME`."""

from eigen2 import seeds
from eigen2.envs.config import EnvConfig, TradingConfig
from eigen2.errors import ConfigError
from eigen2.evaluation.backtest import Strategy
from eigen2.evaluation.holdout import open_holdout
from eigen2.evaluation.market import evaluate_market, evaluation_split
from eigen2.evaluation.oracle import has_oracle, oracle_benchmark
from eigen2.evaluation.policies import cash_benchmark, equal_weight_benchmark, rebalanced_benchmark
from eigen2.evaluation.random_policy import random_benchmark, usual_activity
from eigen2.evaluation.result import Evaluation, HoldoutLedger
from eigen2.evaluation.ridge import fit_ridge, ridge_benchmark
from eigen2.market.data import MarketData
from eigen2.market.load import load_market

POLICIES = ("equal_weight", "rebalanced", "ridge", "random", "cash", "oracle")


def evaluate_named(
    policy: str, config: EnvConfig, seed: int, split: str, holdouts: HoldoutLedger | None = None
) -> Evaluation:
    """A use of the holdout is written into `holdouts`, as one by a champion is."""
    if not isinstance(config, TradingConfig):
        raise ConfigError("--policy names a benchmark of a market; use it with env=trading.")
    market = load_market(config, seed)
    strategy = named_policy(policy, market, config, split, seed=seed)
    uses = None
    if split == "holdout":
        if holdouts is None:
            raise ValueError("the holdout cannot be opened without a ledger that counts its uses")
        # What plays by dice is another policy with another seed.
        champion = f"policy {policy} seed {seed}" if policy == "random" else f"policy {policy}"
        uses = open_holdout(holdouts, market, champion=champion, name=policy)
    return evaluate_market(market, config, strategy, split, seed=seed, uses=uses).result()


def named_policy(name: str, market: MarketData, config: TradingConfig, split: str, *, seed: int) -> Strategy:
    if name == "equal_weight":
        return equal_weight_benchmark(market, config, evaluation_split(market, split))
    if name == "rebalanced":
        return rebalanced_benchmark(config)
    if name == "ridge":
        return ridge_benchmark(market, config, fit_ridge(market, config))
    if name == "cash":
        return cash_benchmark(config)
    if name == "random":
        activity = usual_activity(len(market.tradable))
        return random_benchmark(config, activity, seeds.generator(seed, "evaluation.random_policy"))
    if name == "oracle" and has_oracle(config.data):
        return oracle_benchmark(market, config, seed)
    if name == "oracle":
        raise ConfigError(f"{config.data} has no oracle: only planted markets have a known rule")
    raise ConfigError(f"unknown policy {name!r}; choose one of {', '.join(POLICIES)}")
