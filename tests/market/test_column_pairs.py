"""A table of (field, symbol) columns, as yfinance gives it: its volumes must not be traded as prices.

It is read where every column is a field of a symbol, else refused.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from eigen2.errors import DataError
from eigen2.market.canonical import write_canonical
from eigen2.market.check import check_file, read_prices
from eigen2.market.config import MarketConfig
from eigen2.market.load import load_market

FIELDS = ["Close", "High", "Low", "Open", "Volume"]


def downloaded(*levels: list[str]) -> pd.DataFrame:
    """900 days in the form of `yf.download([...])`: columns of several levels, an index named Date."""
    names = ["Price", "Ticker", "Currency"][: len(levels)]
    columns = pd.MultiIndex.from_product(levels, names=names)
    steps = 0.01 * np.random.default_rng(0).standard_normal((900, len(columns)))
    days = pd.bdate_range("2015-01-01", periods=900, name="Date")
    frame = pd.DataFrame(50 * np.exp(np.cumsum(steps, axis=0)), days, columns)
    for symbol in levels[1]:
        if levels[0] == FIELDS:
            frame[("Open", symbol)] = frame[("Close", symbol)].shift(1).bfill()
            pair = frame[[("Open", symbol), ("Close", symbol)]]
            frame[("High", symbol)], frame[("Low", symbol)] = pair.max(axis=1), pair.min(axis=1)
    return frame


def renamed(frame: pd.DataFrame, columns: Any) -> pd.DataFrame:
    return frame.set_axis(columns, axis=1)


SEVERAL = downloaded(FIELDS, ["AAPL", "MSFT"])
PAIRS: list[tuple[str, str]] = list(SEVERAL.columns)  # type: ignore[arg-type]
READ = {
    "several symbols": SEVERAL,
    "one symbol": downloaded(FIELDS, ["AAPL"]),
    "one field": SEVERAL[["Close"]],
    "symbol first": SEVERAL.swaplevel(axis=1),
    "levels without names": SEVERAL.rename_axis(columns=[None, None]),  # type: ignore[list-item]
    "dates as a column": SEVERAL.reset_index(),
    "tuples as text": renamed(SEVERAL, [str(pair) for pair in PAIRS]),
    "tuples as labels": renamed(SEVERAL, pd.Index(list(SEVERAL.columns), tupleize_cols=False)),
    "joined names": renamed(SEVERAL, ["_".join(pair) for pair in PAIRS]),
    "joined names, symbol first": renamed(SEVERAL, [f"{symbol} {field}" for field, symbol in PAIRS]),
}
REFUSED = {
    "three levels": downloaded(["Close", "Open"], ["AAPL", "MSFT"], ["USD", "EUR"]),
    "unknown fields": SEVERAL.rename(columns={"Volume": "Momentum"}),
    "joined names of which one is unknown": renamed(
        SEVERAL, [*("_".join(pair) for pair in SEVERAL.columns[:-1]), "MSFT_Momentum"]
    ),
}


@pytest.mark.filterwarnings("ignore:The DataFrame has column names of mixed type")
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("name", READ)
def test_columns_of_pairs_are_read_as_what_they_are(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"prices.{kind}"
    getattr(READ[name], f"to_{kind}")(path)
    prices, _ = read_prices(path)
    assert prices.symbols == ("AAPL",) if name == "one symbol" else ("AAPL", "MSFT")
    truth = READ["one symbol"] if name == "one symbol" else SEVERAL
    assert set(prices.arrays()) == ({"close"} if name == "one field" else {field.lower() for field in FIELDS})
    for field, array in prices.arrays().items():
        np.testing.assert_array_equal(array, truth[field.capitalize()].to_numpy())
    assert load_market(MarketConfig(data=str(path)), seed=0).symbols == prices.symbols


@pytest.mark.filterwarnings("ignore:The DataFrame has column names of mixed type")
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("name", REFUSED)
def test_columns_of_pairs_that_are_not_understood_are_refused(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"prices.{kind}"
    getattr(REFUSED[name], f"to_{kind}")(path)
    (finding,) = check_file(path)
    assert finding.severity == "error"
    assert "pairs such as (" in finding.problem or "join a field and a symbol" in finding.problem
    assert 'df["Close"].to_parquet(' in finding.advice
    for read in (read_prices, lambda path: write_canonical(path, tmp_path / "out.parquet")):
        with pytest.raises(DataError, match="columns") as refusal:
            read(path)
        assert "\n" not in str(refusal.value)
    with pytest.raises(DataError, match="columns"):
        load_market(MarketConfig(data=str(path)), seed=0)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_what_the_advice_says_to_write_is_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"prices.{kind}"
    getattr(SEVERAL["Close"], f"to_{kind}")(path)
    assert check_file(path) == []
    prices, _ = read_prices(path)
    assert prices.symbols == ("AAPL", "MSFT")
    np.testing.assert_array_equal(prices.close, SEVERAL["Close"].to_numpy())


def test_symbols_that_only_look_like_fields_are_read(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("date,BRK-B,LOW-USD,Low Co,CLOSE-X\n2020-01-02,1,2,3,4\n2020-01-03,1,2,3,5\n")
    assert [finding for finding in check_file(path) if finding.severity == "error"] == []
