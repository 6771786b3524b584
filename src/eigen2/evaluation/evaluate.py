"""One look at a policy on one split of a market: its record, its benchmarks, and the verdict."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from eigen2 import seeds
from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.errors import ConfigError
from eigen2.evaluation import overfitting
from eigen2.evaluation.backtest import Backtest, Contestant, Policy, run_policy
from eigen2.evaluation.chance import activity_of, random_benchmark, usual_activity
from eigen2.evaluation.ledger import TrialLedger
from eigen2.evaluation.looks import HoldoutLooks
from eigen2.evaluation.oracle import has_oracle, oracle_benchmark
from eigen2.evaluation.policies import cash_benchmark, equal_weight_benchmark, rebalanced_benchmark
from eigen2.evaluation.record import Record, pair, record
from eigen2.evaluation.statistics import FloatArray
from eigen2.evaluation.verdict import Comparison, Edge, Verdict, compare, judge, market_neutral
from eigen2.market.data import MarketData, Split

RANDOM_DRAWS = 20
POLICIES = ("equal_weight", "rebalanced", "random", "cash", "oracle")
"""Policies that can be evaluated by name, without a trained run."""


@dataclass(frozen=True)
class Evaluation:
    """Everything `evaluate` reports on a market. Series are kept for reports and are not part of the JSON."""

    market: str
    split: str
    name: str
    verdict: Verdict
    champion: Record
    benchmarks: dict[str, Record]
    comparison: Comparison
    """Champion against equal weight."""
    trials: int
    effective_trials: float | None
    deflated_sharpe: float | None
    """Of the champion's alpha on the validation days, where it was chosen among the trials."""
    pbo: float | None
    holdout_looks: int
    share_of_oracle: float | None
    """Champion's excess over the oracle's, on planted markets."""
    caveats: tuple[str, ...]
    series: dict[str, FloatArray]
    """Daily log returns `[day]` of the champion and of every benchmark (random: mean over the draws)."""
    dates: np.ndarray[Any, np.dtype[np.datetime64]]
    """[day] closes to which the series belong."""

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and None: no NaN, no infinity."""
        return {
            "market": self.market,
            "split": self.split,
            "policy": self.name,
            "verdict": self.verdict.sentence,
            "evidence_of_skill": self.verdict.evidence_of_skill,
            "champion": self.champion.to_json(),
            "benchmarks": {name: record.to_json() for name, record in self.benchmarks.items()},
            "excess": {"over": "equal_weight", "days": self.comparison.days, **_edge(self.comparison.excess)},
            "alpha": {"beta": self.comparison.beta, **_edge(self.comparison.alpha)},
            "probability": self.verdict.probability,
            "trials": self.trials,
            "effective_trials": self.effective_trials,
            "deflated_sharpe": self.deflated_sharpe,
            "pbo": self.pbo,
            "holdout_looks": self.holdout_looks,
            "share_of_oracle": self.share_of_oracle,
            "caveats": list(self.caveats),
        }


def evaluate_market(
    market: MarketData,
    config: TradingConfig,
    policy: Policy | Contestant,
    split: str,
    *,
    seed: int,
    ledger: TrialLedger | None = None,
    looks: HoldoutLooks | None = None,
) -> Evaluation:
    """Plays `policy` over the whole `split` (validation or holdout) against the benchmarks and judges it.

    `ledger` holds the trials among which the champion was chosen; without one, as for a named policy, there was no
    choice to correct for. `looks` counts this look at the holdout. `seed` must be the one the market was loaded with.
    """
    days = _split(market, split)
    champion = policy if isinstance(policy, Contestant) else Contestant("champion", config, policy)
    played = _play(market, champion, days)
    rivals = _benchmarks(market, config, champion, played, days, seed)
    backtests = {name: _play(market, rival, days, _draws(name)) for name, rival in rivals.items()}
    comparison = compare(
        played.log_returns[0],
        backtests["equal_weight"].log_returns[0],
        seeds.generator(seed, "evaluation.comparison"),
    )
    effective, selection, pbo = _selection(market, config, champion, ledger, seed)
    shown = looks.champions if looks is not None else 1
    candidates = float(shown) if split == "holdout" else max(1.0, effective or 1.0)
    records = {name: record(backtest, _sharpe_stream(seed, name)) for name, backtest in backtests.items()}
    return Evaluation(
        market=market.name,
        split=split,
        name=champion.name,
        verdict=judge(comparison, candidates, int(played.trades[0]), split),
        champion=record(played, _sharpe_stream(seed, "champion")),
        benchmarks=records,
        comparison=comparison,
        trials=ledger.trials if ledger is not None else 0,
        effective_trials=effective,
        deflated_sharpe=selection,
        pbo=pbo,
        holdout_looks=looks.total if looks is not None else 0,
        share_of_oracle=_share_of_oracle(played, backtests),
        caveats=(*market.caveats, *_caveats(split, looks)),
        series={
            "champion": played.log_returns[0],
            **{name: backtest.log_returns.mean(axis=0) for name, backtest in backtests.items()},
        },
        dates=market.dates[days.start + 1 : days.stop],
    )


def named_policy(
    name: str, market: MarketData, config: TradingConfig, split: str, *, seed: int
) -> Contestant:
    """A benchmark as a contestant of its own, for `evaluate --policy NAME`."""
    if name == "equal_weight":
        return equal_weight_benchmark(market, config, _split(market, split))
    if name == "rebalanced":
        return rebalanced_benchmark(config)
    if name == "cash":
        return cash_benchmark(config)
    if name == "random":
        activity = usual_activity(len(market.tradable))
        return random_benchmark(config, activity, seeds.generator(seed, "evaluation.random_policy"))
    if name == "oracle" and has_oracle(config.data):
        return oracle_benchmark(market, config, seed)
    if name == "oracle":
        raise ConfigError(f"{config.data} has no oracle: only planted markets have a rule that can be known")
    raise ConfigError(f"unknown policy {name!r}; choose one of {', '.join(POLICIES)}")


def _split(market: MarketData, name: str) -> Split:
    if name not in ("validation", "holdout"):
        raise ConfigError(f"split is {name!r}; it must be validation or holdout")
    return market.split(name)


def _play(market: MarketData, contestant: Contestant, days: Split, draws: int = 1) -> Backtest:
    return run_policy(TradingCore(market, contestant.config, draws), contestant.policy, days)


def _sharpe_stream(seed: int, name: str) -> np.random.Generator:
    return seeds.generator(seed, f"evaluation.sharpe.{name}")


def _draws(name: str) -> int:
    return RANDOM_DRAWS if name == "random" else 1


def _benchmarks(
    market: MarketData, config: TradingConfig, champion: Contestant, played: Backtest, days: Split, seed: int
) -> dict[str, Contestant]:
    """The rivals; random play imitates the activity of the champion, under the champion's rules."""
    decisions = days.days - 1 - TradingCore(market, champion.config, 1).settlement_days
    activity = activity_of(played, decisions)
    rivals = [
        equal_weight_benchmark(market, config, days),
        rebalanced_benchmark(config),
        random_benchmark(champion.config, activity, seeds.generator(seed, "evaluation.random")),
        cash_benchmark(config),
    ]
    if has_oracle(config.data):
        rivals.append(oracle_benchmark(market, config, seed))
    return {rival.name: rival for rival in rivals}


def _selection(
    market: MarketData, config: TradingConfig, champion: Contestant, ledger: TrialLedger | None, seed: int
) -> tuple[float | None, float | None, float | None]:
    """Effective trials, deflated Sharpe ratio on the validation days and PBO; all None without trials."""
    if ledger is None or ledger.trials == 0:
        return None, None, None
    days = market.validation
    own = _play(market, champion, days).log_returns[0]
    equal_weight = _play(market, equal_weight_benchmark(market, config, days), days).log_returns[0]
    alpha, _ = market_neutral(np.expm1(own), np.expm1(equal_weight))
    tried, _ = market_neutral(
        np.expm1(ledger.returns.astype(np.float64)), np.expm1(ledger.benchmark.astype(np.float64))
    )
    effective = overfitting.effective_trials(tried, seeds.generator(seed, "evaluation.trials"))
    return (
        effective,
        overfitting.deflated_sharpe(alpha, effective),
        overfitting.backtest_overfitting(ledger.excess),
    )


def _share_of_oracle(played: Backtest, backtests: dict[str, Backtest]) -> float | None:
    if "oracle" not in backtests:
        return None
    base = float(backtests["equal_weight"].log_returns.sum())
    best = float(backtests["oracle"].log_returns.sum()) - base
    return (float(played.log_returns[0].sum()) - base) / best if best > 0.0 else None


def _caveats(split: str, looks: HoldoutLooks | None) -> tuple[str, ...]:
    if split == "validation":
        return ("the champion was chosen on these validation days: only the holdout is a fair test",)
    if looks is not None and looks.champions > 1:
        return (f"{looks.champions} different champions were shown to this holdout: it is no longer fresh",)
    return ()


def _edge(edge: Edge) -> dict[str, Any]:
    return {"annual": edge.annual, "ci": pair(edge.ci), "ci_98": pair(edge.ci_98), "sharpe": edge.sharpe}
