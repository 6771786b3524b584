"""The size of a file is known before its prices are read, whatever its layout."""

from pathlib import Path

import pytest
from price_corpus import LAYOUTS, truth

from eigen2.market.check import read_prices
from eigen2.market.config import MarketConfig
from eigen2.market.load import load_market
from eigen2.market.shape import market_shape


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_shape_of_every_layout_is_what_is_read_later(name: str, tmp_path: Path) -> None:
    path = LAYOUTS[name](truth(), tmp_path)
    prices, _ = read_prices(path)
    found = market_shape(MarketConfig(data=str(path)))
    assert found is not None
    assert (found.days, found.symbols, found.prices) == (*prices.close.shape, len(prices.arrays()))


@pytest.mark.parametrize("data", ["sp20", "ohlcv5", "random_walk"])
def test_days_between_two_dates_are_counted_in_the_market_s_own_calendar(data: str) -> None:
    config = MarketConfig(data=data, start="2004-01-01", end="2009-12-31")
    found = market_shape(config)
    assert found is not None
    assert found.days == pytest.approx(len(load_market(config, 0).dates), rel=0.02)


def test_a_file_that_cannot_be_read_has_no_shape(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("date,AAA\nsoon,1\n")
    for name in ("p.csv", "nothing.csv", "."):
        assert market_shape(MarketConfig(data=str(tmp_path / name))) is None
