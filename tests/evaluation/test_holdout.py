"""A use of a holdout is found again, however the same prices come back."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigen2.envs.config import TradingConfig
from eigen2.evaluation.holdout import (
    HoldoutUses,
    description,
    open_holdout,
    same_data,
    sketch_from,
    sketch_of,
)
from eigen2.evaluation.market import evaluate_market_policy
from eigen2.evaluation.named import evaluate_named
from eigen2.evaluation.policies import cash
from eigen2.evaluation.result import WhatIf
from eigen2.market.data import MarketData, Split
from eigen2.market.load import load_market
from eigen2.store.holdout_ledger import HoldoutLedger


def used(ledger: Path, market: MarketData, champion: str, **more: Any) -> tuple[int, int]:
    found = open_holdout(HoldoutLedger(ledger), market, champion=champion, name="champion", **more)
    return found.total, found.champions


def walk(seed: int, **more: Any) -> MarketData:
    return load_market(TradingConfig(data="random_walk", synthetic={"days": 900, "symbols": 6}, **more), seed)


def changed(market: MarketData, **fields: Any) -> MarketData:
    return replace(market, **{"fingerprint": "another", **fields})


def test_two_champions_on_one_holdout_are_two_and_the_same_one_again_is_not(
    sp20: tuple[MarketData, TradingConfig], ledger: Path
) -> None:
    market, _ = sp20
    assert used(ledger, market, "a", trials=400) == (1, 1)
    assert used(ledger, market, "b", trials=300) == (2, 2)
    found = open_holdout(HoldoutLedger(ledger), market, champion="b", name="champion", trials=300)
    assert found == HoldoutUses(3, 2, 700, found.use, str(ledger), 0)


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(lambda m: changed(m, name="other"), id="another file"),
        pytest.param(lambda m: changed(m, symbols=tuple(f"{s}.US" for s in m.symbols)), id="other names"),
        pytest.param(lambda m: changed(m, tradable=m.tradable[3:7]), id="fewer symbols"),
        pytest.param(lambda m: changed(m, close=np.round(m.close, 2)), id="rounded prices"),
        pytest.param(lambda m: changed(m, close=m.close * 0.97), id="adjusted for a later dividend"),
        pytest.param(lambda m: changed(m, holdout=Split("holdout", m.holdout.start - 60, m.holdout.stop - 60)), id="earlier days"),
        pytest.param(lambda m: changed(m, holdout=Split("holdout", m.holdout.start + 100, m.holdout.stop)), id="fewer days"),
    ],
)  # fmt: skip
def test_the_same_prices_are_known_again(
    sp20: tuple[MarketData, TradingConfig], ledger: Path, again: Callable[[MarketData], MarketData]
) -> None:
    market, _ = sp20
    assert used(ledger, market, "a") == (1, 1)
    assert used(ledger, again(market), "b") == (2, 2)


def test_an_unadjusted_split_and_a_missing_week_hide_nothing(sp20: tuple[MarketData, TradingConfig]) -> None:
    market, _ = sp20
    close, mask = market.close.copy(), market.mask.copy()
    close[market.holdout.start + 50 :] *= 0.5
    mask[market.holdout.start + 70 : market.holdout.start + 75] = False
    assert same_data(sketch_of(market), sketch_of(changed(market, close=close, mask=mask)))


def test_days_added_to_a_file_overlap_with_what_was_used(ledger: Path) -> None:
    config = TradingConfig(data="sp20", end="2020-06-30")
    later = config.model_copy(update={"end": "2020-09-30"})
    assert used(ledger, load_market(config, 7), "a") == (1, 1)
    assert used(ledger, load_market(later, 7), "b") == (2, 2)


def test_other_data_of_the_same_days_and_names_is_not_counted(ledger: Path) -> None:
    assert used(ledger, walk(1), "a") == (1, 1)
    assert used(ledger, walk(2), "b") == (1, 1)
    assert used(ledger, walk(1), "c") == (2, 2)


def test_holdouts_that_follow_each_other_are_fresh(
    sp20: tuple[MarketData, TradingConfig], ledger: Path
) -> None:
    market, _ = sp20
    earlier = Split("holdout", market.holdout.start - 251, market.holdout.start)
    assert used(ledger, market, "a") == (1, 1)
    assert used(ledger, changed(market, holdout=earlier), "b") == (1, 1)


def test_a_sketch_survives_the_ledger(sp20: tuple[MarketData, TradingConfig]) -> None:
    market, _ = sp20
    sketch = sketch_of(market)
    back = sketch_from(description(sketch, market))
    assert back.symbols == sketch.symbols
    np.testing.assert_array_equal(back.dates, sketch.dates)
    np.testing.assert_array_equal(back.returns, sketch.returns)


def test_of_a_wide_market_the_same_symbols_are_written_down_whichever_file_they_are_in() -> None:
    wide = load_market(
        TradingConfig(data="random_walk", synthetic={"days": 700, "symbols": 700}, features=("return_1",)), 1
    )
    sketch, half = sketch_of(wide), sketch_of(changed(wide, tradable=wide.tradable[::2]))
    assert len(sketch.symbols) == 512
    assert len(half.symbols) == 350
    assert same_data(sketch, half)
    assert set(sketch.symbols) & set(half.symbols)


def test_uses_that_only_the_run_knows_count_too(sp20: tuple[MarketData, TradingConfig], ledger: Path) -> None:
    """Of runs that are older than the ledger, or were evaluated elsewhere."""
    market, _ = sp20
    format_1 = {"split": "holdout", "champion": "a", "champion_figures": {"sharpe": 1.0}}
    elsewhere = {
        "split": "holdout",
        "champion": {"sharpe": 1.0},
        "champion_fingerprint": "a",
        "holdout_use": "x",
    }
    validation = {"split": "validation", "champion_fingerprint": "b"}
    assert used(ledger, market, "a", records=[format_1, elsewhere, validation]) == (3, 1)
    first = open_holdout(HoldoutLedger(ledger), market, champion="c", name="champion")
    assert (first.total, first.champions) == (2, 2)
    own = {"split": "holdout", "champion_fingerprint": "c", "holdout_use": first.use}
    assert used(ledger, market, "c", records=[own]) == (3, 2)


def test_a_policy_by_name_is_a_use_and_raises_the_bar(
    noise: tuple[MarketData, TradingConfig], ledger: Path
) -> None:
    _, config = noise
    facts = [
        evaluate_named(name, config, 7, "holdout", HoldoutLedger(ledger)).facts
        for name in ("rebalanced", "rebalanced", "random")
    ]
    assert [found["holdout_looks"] for found in facts] == [1, 2, 3]
    assert [found["candidates"] for found in facts] == [1.0, 1.0, 2.0]
    assert [found["alpha"]["level"] for found in facts] == pytest.approx([0.98, 0.98, 0.98997], abs=1e-4)
    assert facts[0]["holdout"]["ledger"] == str(ledger)
    with pytest.raises(ValueError, match="without a ledger"):
        evaluate_named("rebalanced", config, 7, "holdout")


def test_a_champion_with_other_settings_or_days_is_another_candidate(
    noise: tuple[MarketData, TradingConfig], ledger: Path
) -> None:
    market, config = noise
    first = str(market.dates[market.holdout.start + 20])
    tried = [
        None,
        WhatIf(settings={"fee_bp": 0.0}),
        WhatIf(first=first),
        WhatIf(settings={"fee_bp": 0.0}),
        None,
    ]
    found = [
        evaluate_market_policy(
            market, config, lambda market: cash, "holdout",
            seed=7, champion_fingerprint="a", holdouts=HoldoutLedger(ledger), what_if=what_if,
        ).facts
        for what_if in tried
    ]  # fmt: skip
    assert [facts["holdout_looks"] for facts in found] == [1, 2, 3, 4, 5]
    assert [facts["candidates"] for facts in found] == [1, 2, 3, 3, 3]
