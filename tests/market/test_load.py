from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eigen2.errors import ConfigError, DataError
from eigen2.market.canonical import write_canonical
from eigen2.market.catalogue import samples
from eigen2.market.check import check_file, read_prices
from eigen2.market.config import MarketConfig
from eigen2.market.load import load_market
from eigen2.market.prices import Prices
from eigen2.market.splits import make_splits

NAMES = [sample.name for sample in samples()]


@pytest.mark.parametrize("name", NAMES)
def test_every_listed_market_loads_as_described(name: str) -> None:
    (sample,) = [sample for sample in samples() if sample.name == name]
    market = load_market(MarketConfig(data=name), seed=7)
    assert (len(market.symbols), len(market.dates)) == (sample.symbols, sample.days)
    if sample.first is not None:
        assert (str(market.dates[0]), str(market.dates[-1])) == (sample.first, sample.last)
    assert market.caveats == sample.caveats
    assert market.caveats
    assert market.features.shape == (sample.days, sample.symbols, 12)
    assert np.isfinite(market.features).all()
    assert (market.mask == np.isfinite(market.close)).all()
    assert (np.diff(market.dates) > np.timedelta64(0)).all()
    assert (market.open is None) == (sample.kind != "ohlcv")


def test_planted_means_planted_reversal() -> None:
    assert (
        load_market(MarketConfig(data="planted"), 3).fingerprint
        == load_market(MarketConfig(data="planted_reversal"), 3).fingerprint
    )


def test_splits_follow_each_other_with_an_embargo_between() -> None:
    market = load_market(MarketConfig(data="sp20"), 0)
    train, validation, holdout = market.train, market.validation, market.holdout
    assert train.start == 63
    assert validation.start - train.stop == holdout.start - validation.stop == 21
    assert (validation.days, holdout.days, holdout.stop) == (252, 251, len(market.dates))
    assert train.days == 4781 - 63 - 252 - 251 - 42
    assert market.split("validation") is validation


def test_the_shortest_possible_market_has_every_split_and_one_day_less_has_none() -> None:
    config = MarketConfig(
        features=("return_1",), window=10, validation_days=10, holdout_days=10, embargo_days=2
    )
    train, validation, holdout = make_splits(53, config, "it")
    assert (train.start, train.days, validation.days, holdout.days) == (9, 20, 10, 10)
    with pytest.raises(DataError, match="it has 52 days, but 53 are needed"):
        make_splits(52, config, "it")


def test_market_arrays_cannot_be_written(small: MarketConfig) -> None:
    market = load_market(small, 0)
    for array in (market.close, market.features, market.mask, market.dates, market.tradable):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


def test_fingerprint_changes_with_any_price_date_or_symbol_and_with_nothing_else(ragged: Prices) -> None:
    original = ragged.fingerprint()
    assert Prices(ragged.dates.copy(), ragged.symbols, **ragged.arrays()).fingerprint() == original
    close = ragged.close.copy()
    close[17, 0] = np.nextafter(close[17, 0], np.inf)
    changed = [
        Prices(ragged.dates, ragged.symbols, **(ragged.arrays() | {"close": close})),
        Prices(ragged.dates + 1, ragged.symbols, **ragged.arrays()),
        Prices(ragged.dates, ("ALLL", "ATE", "GONE", "HOLE"), **ragged.arrays()),
        Prices(ragged.dates, ragged.symbols, ragged.close),
    ]
    assert len({original, *(prices.fingerprint() for prices in changed)}) == 5


def test_start_and_end_choose_days() -> None:
    market = load_market(MarketConfig(data="sp20", start="2010-01-01", end="2020-12-31"), 0)
    assert (str(market.dates[0]), str(market.dates[-1])) == ("2010-01-04", "2020-12-31")
    with pytest.raises(ConfigError, match=r"env.start is 'soon'; write a date such as"):
        load_market(MarketConfig(start="soon"), 0)
    with pytest.raises(DataError, match="has 0 days"):
        load_market(MarketConfig(start="2020-01-01", end="2019-01-01"), 0)


def test_tradable_and_context_are_chosen_by_name() -> None:
    def positions(**choice: tuple[str, ...]) -> list[str]:
        market = load_market(MarketConfig(data="ohlcv5", **choice), 0)
        return [market.symbols[position] for position in market.tradable]

    assert positions() == ["AAPL", "FB", "GOOG", "IBM", "MSFT"]
    assert positions(context=("FB", "IBM")) == ["AAPL", "GOOG", "MSFT"]
    assert positions(tradable=("MSFT", "AAPL")) == ["AAPL", "MSFT"]
    with pytest.raises(ConfigError, match="env.context names GOOGL, which .* the nearest is GOOG"):
        positions(context=("GOOGL",))
    with pytest.raises(ConfigError, match="IBM cannot be in both"):
        positions(context=("IBM",), tradable=("IBM",))
    with pytest.raises(ConfigError, match="no symbol may be traded"):
        positions(tradable=())


def test_a_symbol_without_prices_on_the_chosen_days_is_masked_and_said() -> None:
    market = load_market(MarketConfig(data="ohlcv5", end="2010-01-01"), 0)
    assert not market.mask[:, market.symbols.index("FB")].any()
    assert "FB has no prices on the chosen days" in market.caveats[-1]


def test_long_file_keeps_listing_delisting_and_holes_on_their_days(ragged: Prices, ragged_file: Path) -> None:
    read, warnings = read_prices(ragged_file)
    assert read.symbols == ("ALL", "GONE", "HOLE", "LATE")
    order = [ragged.symbols.index(symbol) for symbol in read.symbols]
    for name, array in ragged.arrays().items():
        np.testing.assert_array_equal(read.arrays()[name], array[:, order])
    assert [finding.symbol for finding in warnings] == ["HOLE"]
    config = MarketConfig(data=str(ragged_file), validation_days=40, holdout_days=40)
    market = load_market(config, 0)
    assert market.name == "ragged"
    np.testing.assert_array_equal(market.mask, ragged.mask[:, order])
    assert any("HOLE" in caveat for caveat in market.caveats)


def test_csv_wide_parquet_and_pandas_index_read_alike(tmp_path: Path) -> None:
    days = pd.bdate_range("2020-01-01", periods=30, name="Date")
    frame = pd.DataFrame({"NA": np.arange(1.0, 31), "b": np.arange(31.0, 61)}, index=days)
    frame.iloc[3, 1] = np.nan
    frame.to_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "b.parquet")
    frame.reset_index().to_parquet(tmp_path / "c.data")
    frame.reset_index().assign(Date=days.date).to_parquet(tmp_path / "d.parquet")
    (tmp_path / "e.csv").write_text("\ufeff" + frame.to_csv() + "\n\n", encoding="utf-8")
    found = [
        read_prices(tmp_path / name)[0] for name in ("a.csv", "b.parquet", "c.data", "d.parquet", "e.csv")
    ]
    assert {prices.symbols for prices in found} == {("NA", "b")}
    assert len({prices.fingerprint() for prices in found}) == 1


def test_build_writes_what_it_read(ragged: Prices, ragged_file: Path, tmp_path: Path) -> None:
    prices, warnings = write_canonical(ragged_file, tmp_path / "out.parquet")
    assert read_prices(tmp_path / "out.parquet")[0].fingerprint() == prices.fingerprint()
    assert [finding.symbol for finding in warnings] == ["HOLE"]
    closes = Prices(ragged.dates, ragged.symbols, ragged.close)
    frame = pd.DataFrame(
        closes.close, columns=list(closes.symbols), index=pd.Index(closes.dates, name="date")
    )
    frame.to_csv(tmp_path / "wide.csv")
    write_canonical(tmp_path / "wide.csv", tmp_path / "wide.parquet")
    assert read_prices(tmp_path / "wide.parquet")[0].fingerprint() == closes.fingerprint()
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".")]


def test_build_into_a_missing_directory_says_so(ragged_file: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a directory; make it first"):
        write_canonical(ragged_file, tmp_path / "nowhere" / "out.parquet")


def test_embedded_samples_pass_our_own_check() -> None:
    import eigen2.market

    directory = Path(eigen2.market.__file__).parent / "samples"
    files = sorted(directory.glob("*.parquet"))
    assert [path.stem for path in files] == ["etf23", "ohlcv5", "sp20"]
    for path in files:
        assert path.stat().st_size < 1_000_000
        assert check_file(path, MarketConfig()) == []
        assert path.name in (directory / "README.md").read_text()


def test_a_file_that_is_not_there_is_not_taken_for_a_market(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.csv").touch()

    def refusal(data: str) -> str:
        with pytest.raises(DataError) as caught:
            load_market(MarketConfig(data=data), 1)
        return str(caught.value)

    assert refusal("nosuch.csv").endswith("known market; check the path")
    assert refusal("price.csv").endswith("known market; did you mean prices.csv?")
    assert refusal("no/where.csv").endswith("known market; there is no directory no")
    assert refusal("sp2o").endswith("known market; did you mean sp20?")


def test_an_empty_column_beside_grouped_thousands_is_read_as_unknown(tmp_path: Path) -> None:
    path = tmp_path / "AAA.csv"
    path.write_text('date,open,close,volume\n2020-01-02,,10.5,"1,000"\n2020-01-03,,10.6,"2,000"\n')
    prices, _ = read_prices(path)
    assert prices.open is None
    assert prices.volume is not None
    assert prices.volume.ravel().tolist() == [1000.0, 2000.0]
