"""Evaluation of a policy on one split of a market: its record, its benchmarks, and the verdict."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2 import seeds
from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.errors import ConfigError
from eigen2.evaluation import pictures
from eigen2.evaluation.backtest import Backtest, Policy, Strategy, play, run_policy
from eigen2.evaluation.cost_curve import CostCurve, cost_curve
from eigen2.evaluation.holdout import HoldoutUses, candidate, open_holdout
from eigen2.evaluation.ledger import TrialLedger
from eigen2.evaluation.oracle import has_oracle, oracle_benchmark
from eigen2.evaluation.policies import cash_benchmark, equal_weight_benchmark, rebalanced_benchmark
from eigen2.evaluation.random_policy import activity_of, random_benchmark
from eigen2.evaluation.record import Record, pair, record
from eigen2.evaluation.result import Evaluation, HoldoutLedger, WhatIf
from eigen2.evaluation.ridge import Ridge, known_ridge, ridge_benchmark
from eigen2.evaluation.selection import selection
from eigen2.evaluation.table import evaluation_table
from eigen2.evaluation.tables import people_tables, trade_table
from eigen2.evaluation.verdict import (
    Comparison,
    Edge,
    Verdict,
    beside_ridge,
    compare,
    edge,
    skill_verdict,
)
from eigen2.evaluation.what_if import under
from eigen2.market.data import FloatArray, MarketData, Split

RANDOM_DRAWS = 20


@dataclass(frozen=True)
class MarketEvaluation:
    """Everything `evaluate` reports on a market."""

    market: str
    split: str
    name: str
    verdict: Verdict
    champion: Record
    benchmarks: dict[str, Record]
    comparison: Comparison
    """Champion against equal weight."""
    over_ridge: Edge
    """Champion's log return minus that of ridge regression."""
    ridge: Ridge
    trials: int
    effective_trials: float | None
    validation_deflated_sharpe: float | None
    """Of the champion's alpha on the validation days, where it was chosen among the trials."""
    pbo: float | None
    uses: HoldoutUses | None
    """Of the holdout, when that is the split."""
    share_of_oracle: float | None
    """Champion's excess over the oracle's, on planted markets."""
    caveats: tuple[str, ...]
    dates: npt.NDArray[np.datetime64]
    """[day] closes to which the returns and the backtest belong."""
    returns: dict[str, FloatArray]
    """Daily log returns `[day]` of the champion and of every benchmark (random: mean over the draws)."""
    backtest: Backtest
    """The champion's."""
    tradable: tuple[str, ...]
    """Names of the tradable symbols."""
    trades_made: dict[str, npt.NDArray[Any]] | None = None
    """The champion's, one row each."""
    prices: dict[str, npt.NDArray[Any]] | None = None
    """Closes of the symbols it traded most."""
    band: tuple[FloatArray, FloatArray] | None = None
    """Around the champion's log growth."""
    costs: CostCurve | None = None
    data: dict[str, object] = field(default_factory=dict)
    """About the market, for people."""

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and None: no NaN, no infinity."""
        return {
            "market": self.market,
            "frequency": self.comparison.frequency.name,
            "periods_per_year": self.comparison.frequency.periods_per_year,
            "split": self.split,
            "policy": self.name,
            "verdict": self.verdict.sentence,
            "evidence_of_skill": self.verdict.evidence_of_skill,
            "champion": self.champion.to_json(),
            "benchmarks": {name: record.to_json() for name, record in self.benchmarks.items()},
            "excess": {"over": "equal_weight", "days": self.comparison.days, **_edge(self.comparison.excess)},
            "alpha": {"beta": self.comparison.beta, **_edge(self.comparison.alpha)},
            "equal_risk": self.comparison.equal_risk,
            "over_ridge": {"annual": self.over_ridge.annual, "ci": pair(self.over_ridge.ci)},
            "ridge": self.ridge.to_json(),
            "candidates": self.verdict.candidates,
            "trials": self.trials,
            "effective_trials": self.effective_trials,
            "deflated_sharpe": self.verdict.probability,
            "validation_deflated_sharpe": self.validation_deflated_sharpe,
            "pbo": self.pbo,
            "holdout_looks": 0 if self.uses is None else self.uses.total,
            **({} if self.uses is None else self.uses.to_json()),
            "share_of_oracle": self.share_of_oracle,
            **({} if self.costs is None else {"costs": self.costs.to_json()}),
            **({"data": self.data} if self.data else {}),
            "caveats": list(self.caveats),
        }

    def result(self) -> Evaluation:
        return Evaluation(
            self.to_json(),
            evaluation_table(self),
            pictures.series(self),
            pictures.panels(self),
            people_tables(self),
        )


def evaluate_market_policy(
    market: MarketData,
    config: TradingConfig,
    policy_of: Callable[[MarketData], Policy],
    split: str,
    *,
    seed: int,
    champion_fingerprint: str,
    ledger: TrialLedger | None = None,
    records: Iterable[Mapping[str, object]] = (),
    holdouts: HoldoutLedger | None = None,
    what_if: WhatIf | None = None,
) -> Evaluation:
    """The champion of a run. A use of the holdout is written into `holdouts` before anything is played on it;
    `records` are the facts of the run's earlier evaluations, `champion_fingerprint` tells this champion from theirs.
    `what_if` changes the circumstances."""
    evaluation_split(market, split)
    found = under(what_if or WhatIf(), market, config, split)
    uses = None
    if split == "holdout":
        if holdouts is None:
            raise ValueError("the holdout cannot be opened without a ledger that counts its uses")
        trials = ledger.trials if ledger is not None else 0
        uses = open_holdout(
            holdouts,
            found.market,
            champion=candidate(champion_fingerprint, found.facts),
            name="champion",
            trials=trials,
            records=records,
        )
    evaluation = evaluate_market(
        found.market, found.config, policy_of(found.market), split, seed=seed, ledger=ledger, uses=uses,
        records=records, benchmarks=found.benchmarks,
    )  # fmt: skip
    notes = (*evaluation.caveats, *found.notes)
    result = replace(evaluation, caveats=notes).result()
    changed = {"what_if": found.facts} if found.facts else {}
    return replace(result, facts={**result.facts, "champion_fingerprint": champion_fingerprint, **changed})


def evaluate_market(
    market: MarketData,
    config: TradingConfig,
    policy: Policy | Strategy,
    split: str,
    *,
    seed: int,
    ledger: TrialLedger | None = None,
    uses: HoldoutUses | None = None,
    records: Iterable[Mapping[str, Any]] = (),
    benchmarks: Sequence[Strategy] = (),
) -> MarketEvaluation:
    """Plays `policy` over the whole `split` (validation or holdout) against the benchmarks.

    `ledger` holds the trials among which the champion was chosen; without one, as for a named policy, there was no
    choice to correct for. `uses` counts this use of the holdout. `seed` must be the one the market was loaded with.
    Ridge regression is not fitted again when an earlier evaluation in `records` has done it.
    """
    days = evaluation_split(market, split)
    champion = policy if isinstance(policy, Strategy) else Strategy("champion", config, policy)
    core = TradingCore(market, champion.config, 1)
    log = core.record_trades()
    played = run_policy(core, champion.policy, days)
    effective, on_validation, pbo = selection(market, config, champion, ledger, seed)
    chosen_here = split == "validation" and ledger is not None
    ridge = known_ridge(market, config, records)
    backtests = {
        benchmark.name: play(market, benchmark, days, _draws(benchmark.name))
        for benchmark in (*_benchmarks(market, config, champion, played, days, seed, ridge), *benchmarks)
    }
    comparison = compare(
        played.log_returns[0],
        backtests["equal_weight"].log_returns[0],
        market.frequency,
        seeds.generator(seed, "evaluation.comparison"),
        candidates=1 if uses is None else uses.champions,
    )
    over_ridge = edge(
        played.log_returns[0] - backtests["ridge"].log_returns[0],
        market.periods_per_year,
        seeds.generator(seed, "evaluation.ridge"),
    )
    verdict = skill_verdict(comparison, int(played.trades[0]), split, effective if chosen_here else None)
    made = trade_table(log.trades(), market)
    figures = {name: record(backtest, _sharpe_stream(seed, name)) for name, backtest in backtests.items()}
    return MarketEvaluation(
        market=market.name,
        split=split,
        name=champion.name,
        verdict=beside_ridge(verdict, over_ridge),
        champion=record(played, _sharpe_stream(seed, "champion")),
        benchmarks=figures,
        comparison=comparison,
        over_ridge=over_ridge,
        ridge=ridge,
        trials=ledger.trials if ledger is not None else 0,
        effective_trials=effective,
        validation_deflated_sharpe=on_validation,
        pbo=pbo,
        uses=uses,
        share_of_oracle=_share_of_oracle(played, backtests),
        caveats=(*_caveats(chosen_here, uses), *market.caveats),
        dates=market.dates[days.start + 1 : days.stop],
        returns={
            "champion": played.log_returns[0],
            **{name: backtest.log_returns.mean(axis=0) for name, backtest in backtests.items()},
        },
        backtest=played,
        tradable=tuple(market.symbols[position] for position in market.tradable),
        trades_made=made,
        prices=pictures.traded_prices(market, days.start, days.stop, made),
        band=pictures.growth_band(played.log_returns[0], seeds.generator(seed, "evaluation.band")),
        costs=cost_curve(played, backtests["equal_weight"], config.fee_bp + config.slippage_bp),
        data=pictures.data_card(market),
    )


def evaluation_split(market: MarketData, name: str) -> Split:
    if name not in ("validation", "holdout"):
        raise ConfigError(f"split is {name!r}; it must be validation or holdout")
    return market.split(name)


def _sharpe_stream(seed: int, name: str) -> np.random.Generator:
    return seeds.generator(seed, f"evaluation.sharpe.{name}")


def _draws(name: str) -> int:
    return RANDOM_DRAWS if name == "random" else 1


def _benchmarks(
    market: MarketData,
    config: TradingConfig,
    champion: Strategy,
    played: Backtest,
    days: Split,
    seed: int,
    ridge: Ridge,
) -> list[Strategy]:
    """What the champion is compared with; random play imitates the activity of the champion, under the champion's rules."""
    decisions = days.days - 1 - TradingCore(market, champion.config, 1).settlement_days
    activity = activity_of(played, decisions)
    benchmarks = [
        equal_weight_benchmark(market, config, days),
        rebalanced_benchmark(config),
        ridge_benchmark(market, config, ridge),
        random_benchmark(champion.config, activity, seeds.generator(seed, "evaluation.random")),
        cash_benchmark(config),
    ]
    if has_oracle(config.data):
        benchmarks.append(oracle_benchmark(market, config, seed))
    return benchmarks


def _share_of_oracle(played: Backtest, backtests: dict[str, Backtest]) -> float | None:
    if "oracle" not in backtests:
        return None
    base = float(backtests["equal_weight"].log_returns.sum())
    best = float(backtests["oracle"].log_returns.sum()) - base
    return (float(played.log_returns[0].sum()) - base) / best if best > 0.0 else None


def _caveats(chosen_here: bool, uses: HoldoutUses | None) -> tuple[str, ...]:
    if chosen_here:
        fair = "`eigen2 evaluate RUN --split holdout` is the fair test, once"
        return (f"the champion was chosen on these validation days; {fair}",)
    return () if uses is None else uses.notes()


def _edge(edge: Edge) -> dict[str, Any]:
    return {
        "annual": edge.annual,
        "ci": pair(edge.ci),
        "ci_deciding": pair(edge.deciding),
        "level": edge.level,
        "sharpe": edge.sharpe,
    }
