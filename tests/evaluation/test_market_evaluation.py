"""An evaluation is complete, reproducible, plain JSON, and changes nothing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.errors import ConfigError
from eigen2.evaluation.backtest import run_policy
from eigen2.evaluation.holdout import HoldoutUses
from eigen2.evaluation.ledger import TrialLedger
from eigen2.evaluation.market import MarketEvaluation, evaluate_market, evaluate_market_policy
from eigen2.evaluation.named import POLICIES, evaluate_named, named_policy
from eigen2.evaluation.policies import cash, equal_weight_benchmark
from eigen2.evaluation.ridge import fit_ridge
from eigen2.evaluation.table import evaluation_table
from eigen2.market.data import MarketData
from eigen2.seeds import generator
from eigen2.store.holdout_ledger import HoldoutLedger

SEED = 7
FIXED = {
    "split",
    "verdict",
    "evidence_of_skill",
    "champion",
    "benchmarks",
    "trials",
    "deflated_sharpe",
    "pbo",
    "holdout_looks",
}
FIXED_RECORD = {"log_return", "sharpe", "sharpe_ci", "max_drawdown", "turnover"}


FITTED: dict[str, Any] = {}
"""Baselines by market, as the evaluations of a run hand them on."""


def evaluate(
    setting: tuple[MarketData, TradingConfig], name: str, split: str = "holdout", **more: Any
) -> MarketEvaluation:
    market, config = setting
    strategy = named_policy(name, market, config, split, seed=SEED)
    if market.fingerprint not in FITTED:
        FITTED[market.fingerprint] = {"ridge": fit_ridge(market, config).to_json()}
    earlier = [FITTED[market.fingerprint]]
    return evaluate_market(market, config, strategy, split, seed=SEED, records=earlier, **more)


@pytest.fixture(scope="module")
def oracle_evaluation(planted: tuple[MarketData, TradingConfig]) -> MarketEvaluation:
    market, config = planted
    return evaluate(planted, "oracle", ledger=ledger_of(market, config), uses=HoldoutUses(2, 1))


def ledger_of(market: MarketData, config: TradingConfig, skill: float = 0.0) -> TrialLedger:
    days = market.validation
    rival = equal_weight_benchmark(market, config, days)
    benchmark = run_policy(TradingCore(market, rival.config, 1), rival.policy, days).log_returns[0]
    ledger = TrialLedger(benchmark)
    rng = generator(0, "ledger")
    for generation in range(5):
        ledger.record(generation, benchmark + skill + 0.004 * rng.normal(size=(16, len(benchmark))))
    return ledger


@pytest.mark.parametrize("name", ["equal_weight", "rebalanced", "random", "cash"])
@pytest.mark.parametrize("split", ["validation", "holdout"])
def test_a_named_policy_is_evaluated_without_a_run(
    sp20: tuple[MarketData, TradingConfig], name: str, split: str
) -> None:
    found = json.loads(json.dumps(evaluate(sp20, name, split).to_json(), allow_nan=False))
    assert set(found) >= FIXED
    assert set(found["champion"]) >= FIXED_RECORD
    assert set(found["benchmarks"]) == {"equal_weight", "rebalanced", "ridge", "random", "cash"}
    assert all(set(record) >= FIXED_RECORD for record in found["benchmarks"].values())
    assert found["split"] == split
    assert found["trials"] == 0
    assert found["validation_deflated_sharpe"] is None
    assert found["pbo"] is None
    assert found["evidence_of_skill"] is False
    assert found["verdict"].startswith("no evidence of skill")
    assert any("survivors" in caveat for caveat in found["caveats"])


def test_a_policy_equal_to_a_benchmark_gets_the_same_figures(sp20: tuple[MarketData, TradingConfig]) -> None:
    found = evaluate(sp20, "rebalanced").to_json()
    assert found["champion"]["log_return"] == found["benchmarks"]["rebalanced"]["log_return"]
    assert found["champion"]["turnover"] == found["benchmarks"]["rebalanced"]["turnover"]


def test_the_oracle_of_a_planted_market_shows_skill(oracle_evaluation: MarketEvaluation) -> None:
    found = oracle_evaluation.to_json()
    assert found["evidence_of_skill"] is True
    assert found["verdict"].startswith("evidence of skill")
    assert found["share_of_oracle"] == pytest.approx(1.0)
    assert found["excess"]["ci"][0] > 0.0


def test_trials_are_counted_and_corrected_for(oracle_evaluation: MarketEvaluation) -> None:
    found = oracle_evaluation.to_json()
    assert found["trials"] == 80
    assert 40 < found["effective_trials"] <= 80
    assert found["deflated_sharpe"] > 0.95
    assert found["validation_deflated_sharpe"] > 0.95
    assert 0.0 <= found["pbo"] <= 1.0
    assert found["holdout_looks"] == 2


def test_evaluating_twice_gives_the_same_answer(planted: tuple[MarketData, TradingConfig]) -> None:
    assert evaluate(planted, "random").to_json() == evaluate(planted, "random").to_json()


def test_a_bare_policy_function_is_evaluated_under_the_given_rules(
    noise: tuple[MarketData, TradingConfig],
) -> None:
    market, config = noise
    found = evaluate_market(market, config, cash, "holdout", seed=SEED).to_json()
    assert found["policy"] == "champion"
    assert found["champion"]["sharpe"] is None
    assert found["champion"]["log_return"] == 0.0
    assert found["verdict"].startswith("no evidence of skill: the champion never traded")


def test_random_play_reports_its_range_over_the_draws(noise: tuple[MarketData, TradingConfig]) -> None:
    record = evaluate(noise, "random").to_json()["benchmarks"]["random"]
    low, high = record["log_return_range"]
    assert low < record["log_return"] < high


def test_a_worn_holdout_is_named_in_the_caveats(planted: tuple[MarketData, TradingConfig]) -> None:
    found = evaluate(planted, "equal_weight", uses=HoldoutUses(total=5, champions=3))
    assert any("3 different champions" in caveat for caveat in found.caveats)


def test_series_belong_to_the_days_of_the_split(planted: tuple[MarketData, TradingConfig]) -> None:
    market, _ = planted
    found = evaluate(planted, "oracle")
    series = found.result().series
    assert set(series) == {"returns", "growth", "weights", "trades", "prices", "fills", "costs"}
    assert set(series["growth"]) == {*series["returns"], "low", "high"}
    assert set(series["returns"]) == {"date", "champion", *found.benchmarks}
    assert list(series["weights"]) == ["date", *(market.symbols[i] for i in market.tradable)]
    assert list(series["trades"]) == ["date", "turnover", "opened"]
    expected = market.dates[market.holdout.start + 1 : market.holdout.stop]
    for table in (series[name] for name in ("returns", "growth", "weights", "trades")):
        assert table["date"].dtype == "datetime64[D]"
        np.testing.assert_array_equal(table["date"], expected)
        assert {column.shape for column in table.values()} == {expected.shape}


def test_series_tell_what_the_champion_earned_held_and_traded(
    planted: tuple[MarketData, TradingConfig],
) -> None:
    found = evaluate(planted, "oracle")
    series = found.result().series
    record = found.champion
    assert np.expm1(series["returns"]["champion"].sum()) == pytest.approx(record.performance.simple_return)
    shares = [column for name, column in series["weights"].items() if name != "date"]
    assert {column.dtype for column in shares} == {np.dtype(np.float32)}
    assert np.mean(np.sum(shares, axis=0)) == pytest.approx(record.exposure, rel=1e-5)
    assert series["trades"]["turnover"].mean() * 252 == pytest.approx(record.turnover)
    assert series["trades"]["opened"].sum() == record.trades
    assert series["growth"]["champion"][-1] == pytest.approx(100 * record.performance.simple_return)
    assert found.costs is not None
    charged = list(series["costs"]["bp_per_side"]).index(found.costs.charged_bp)
    assert series["costs"]["champion"][charged] == pytest.approx(100 * record.performance.simple_return)
    assert set(series["fills"]["symbol"]) == set(series["prices"]) - {"date"}
    assert set(series["fills"]["date"]) <= set(series["prices"]["date"])


def test_a_champion_is_evaluated_with_its_fingerprint_and_the_uses_of_the_holdout(
    noise: tuple[MarketData, TradingConfig], ledger: Path
) -> None:
    market, config = noise
    records = [{"split": "holdout", "champion": "old"}, {"split": "validation", "champion_fingerprint": "x"}]
    holdouts = HoldoutLedger(ledger)
    found = evaluate_market_policy(
        market, config, lambda market: cash, "holdout",
        seed=SEED, champion_fingerprint="new", records=records, holdouts=holdouts,
    )  # fmt: skip
    assert found.facts["champion_fingerprint"] == "new"
    assert found.facts["champion"]["log_return"] == 0.0
    assert found.facts["holdout_looks"] == 2
    json.dumps(found.facts, allow_nan=False)
    assert any("2 different champions" in caveat for caveat in found.facts["caveats"])
    on_validation = evaluate_market_policy(
        market,
        config,
        lambda market: cash,
        "validation",
        seed=SEED,
        champion_fingerprint="new",
        records=records,
    )
    assert on_validation.facts["holdout_looks"] == 0


def test_a_benchmark_is_evaluated_by_its_name(noise: tuple[MarketData, TradingConfig]) -> None:
    _, config = noise
    found = evaluate_named("rebalanced", config, SEED, "validation")
    assert found.facts == evaluate(noise, "rebalanced", "validation").to_json()
    assert set(found.series) == {"returns", "weights", "trades", "growth", "costs", "prices", "fills"}


def test_unknown_names_are_refused_with_the_known_ones(sp20: tuple[MarketData, TradingConfig]) -> None:
    market, config = sp20
    with pytest.raises(ConfigError, match="equal_weight, rebalanced"):
        named_policy("genius", market, config, "holdout", seed=SEED)
    with pytest.raises(ConfigError, match="no oracle"):
        named_policy("oracle", market, config, "holdout", seed=SEED)
    with pytest.raises(ConfigError, match="validation or holdout"):
        evaluate_market(market, config, cash, "train", seed=SEED)
    assert "oracle" in POLICIES


def test_the_table_shows_verdict_evidence_and_caveats(oracle_evaluation: MarketEvaluation) -> None:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(evaluation_table(oracle_evaluation))
    text = capture.get()
    for words in (
        "equal weight",
        "oracle",
        "evidence of skill",
        "deflated Sharpe",
        "on these holdout days",
        "deflated Sharpe there",
        "PBO",
        "holdout uses 2",
        "note:",
    ):
        assert words in text
