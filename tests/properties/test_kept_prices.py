"""The prices that a run keeps give the market of the user's file, bit for bit, whatever the file looks like."""

import hashlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigen2.market import kept
from eigen2.market.config import MarketConfig
from eigen2.market.data import MarketData
from eigen2.market.kept import kept_prices
from eigen2.market.load import load_market

SMALL = {
    "window": 4, "features": ("return_1", "rsi", "volatility"), "validation_days": 10, "holdout_days": 10,
    "embargo_days": 0,
}  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A wide or long table, ragged, with holes and symbols in any order, and the days that a config uses of it."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    days, count = draw(st.integers(110, 160)), draw(st.integers(1, 5))
    names = draw(
        st.lists(st.sampled_from(["B", "A", "ZZ", "é€", "NA", "x y", "^GSPC", "7"]), min_size=count,
                 max_size=count, unique=True)
    )  # fmt: skip
    close = 50 * np.exp(np.cumsum(0.02 * random.standard_normal((days, count)), axis=0))
    for column in range(count):
        kind = draw(st.sampled_from(["whole", "late", "gone", "hole"]))
        place = draw(st.integers(20, 90))
        hidden = {
            "whole": slice(0),
            "late": slice(place),
            "gone": slice(place, None),
            "hole": slice(place, place + 5),
        }
        close[hidden[kind], column] = np.nan
    close[:, 0] = np.where(np.isnan(close[:, 0]), 45.0, close[:, 0])
    dates = np.busday_offset(np.datetime64("2015-01-05"), np.arange(days)).astype(str)
    used = draw(
        st.sampled_from([{}, {"start": dates[8]}, {"end": dates[-9]}, {"start": dates[3], "end": dates[-2]}])
    )
    if draw(st.booleans()):
        return pd.DataFrame({"date": dates} | {name: close[:, i] for i, name in enumerate(names)}), used
    rows = {"date": np.repeat(dates, count), "symbol": np.tile(names, days), "close": close.ravel()}
    for field in draw(st.sets(st.sampled_from(["open", "volume"]))):
        rows[field] = np.where(random.random(days * count) < 0.1, np.nan, rows["close"])
    table = pd.DataFrame(rows)
    return (table if draw(st.booleans()) else table.dropna(subset=["close"])), used


def differing(one: MarketData, other: MarketData) -> list[str]:
    return [
        field.name
        for field in fields(one)
        if bits(getattr(one, field.name)) != bits(getattr(other, field.name))
    ]


def bits(value: object) -> object:
    if not isinstance(value, np.ndarray):
        return value
    return value.dtype.str, value.shape, value.flags.c_contiguous, hashlib.sha256(value.tobytes()).hexdigest()


@settings(max_examples=60, deadline=None)
@given(files(), st.sampled_from(["csv", "parquet"]), st.sampled_from([1, 300, kept.ROWS]))
def test_the_kept_file_gives_the_same_market_and_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    file: tuple[pd.DataFrame, dict[str, Any]],
    suffix: str,
    rows: int,
) -> None:
    table, used = file
    place = tmp_path_factory.mktemp("kept")
    source = place / f"my prices.{suffix}"
    table.to_csv(source, index=False) if suffix == "csv" else table.to_parquet(source, index=False)
    config = MarketConfig(data=str(source), **SMALL, **used)
    market = load_market(config, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "ROWS", rows)
        content = kept_prices(market)
    assert content is not None
    (place / "object").write_bytes(content)
    source.unlink()
    again = load_market(config, 0, kept=place / "object")
    assert differing(market, again) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "ROWS", rows)
        assert kept_prices(again) == content


def test_where_the_file_lies_does_not_change_the_kept_bytes(tmp_path: Path) -> None:
    contents = set()
    for name in ("one.csv", "two.csv"):
        close = np.r_[np.full(60, 10.0), np.full(3, np.nan), np.linspace(10, 90, 60)]
        dates = np.busday_offset(np.datetime64("2015-01-05"), np.arange(len(close))).astype(str)
        pd.DataFrame({"date": dates, "A": close}).to_csv(tmp_path / name, index=False)
        market = load_market(MarketConfig(data=str(tmp_path / name), **SMALL), 0)
        assert any("3 days are missing" in caveat and name in caveat for caveat in market.caveats)
        contents.add(kept_prices(market))
    assert len(contents) == 1


def test_a_symbol_without_prices_on_the_days_that_are_used_stays(tmp_path: Path) -> None:
    close = np.linspace(5, 9, 360).reshape(180, 2)
    close[40:, 1] = np.nan
    dates = np.busday_offset(np.datetime64("2015-01-05"), np.arange(180)).astype(str)
    pd.DataFrame({"date": dates, "Z": close[:, 0], "A": close[:, 1]}).to_csv(
        tmp_path / "prices.csv", index=False
    )
    config = MarketConfig(data=str(tmp_path / "prices.csv"), start=str(dates[50]), **SMALL)
    market = load_market(config, 0)
    assert "A has no prices on the chosen days" in market.caveats[-1]
    content = kept_prices(market)
    assert content is not None
    (tmp_path / "object").write_bytes(content)
    assert differing(market, load_market(config, 0, kept=tmp_path / "object")) == []


def test_symbols_may_be_called_like_columns(tmp_path: Path) -> None:
    """A long file may name a symbol `date` or `close`; a layout with a column per symbol could not."""
    names = ["close", "date", "symbol"]
    dates = np.busday_offset(np.datetime64("2015-01-05"), np.arange(120)).astype(str)
    table = {"date": np.repeat(dates, 3), "symbol": np.tile(names, 120), "close": np.linspace(5, 9, 360)}
    pd.DataFrame(table).to_csv(tmp_path / "prices.csv", index=False)
    config = MarketConfig(data=str(tmp_path / "prices.csv"), **SMALL)
    market = load_market(config, 0)
    content = kept_prices(market)
    assert content is not None
    (tmp_path / "object").write_bytes(content)
    assert differing(market, load_market(config, 0, kept=tmp_path / "object")) == []


def test_markets_known_by_name_are_not_kept() -> None:
    for name in ("sp20", "random_walk"):
        assert kept_prices(load_market(MarketConfig(data=name), 7)) is None
