"""Our indicators are TA-Lib's, number for number."""

import numpy as np
import pytest
import talib

from eigen2.market.data import FloatArray
from eigen2.market.embedded import read_sample
from eigen2.market.features import FAST, MEAN_DAYS, RSI_DAYS, SIGNAL, SLOW, TRIX_DAYS, RawFeatures, lookback
from eigen2.market.prices import Prices


def talib_feature(name: str, prices: Prices, column: int) -> FloatArray:
    """One symbol's feature by TA-Lib, from its first known day on."""
    first = int(np.argmax(prices.mask[:, column]))
    close = prices.close[first:, column].copy()
    macd, signal, _ = talib.MACD(close, FAST, SLOW, SIGNAL)
    daily = np.diff(np.log(close))
    found = {
        "rsi": talib.RSI(close, RSI_DAYS),
        "macd": macd / close,
        "macd_signal": signal / close,
        "trix": talib.TRIX(close, TRIX_DAYS),
        "sma20_distance": np.log(close / talib.SMA(close, MEAN_DAYS)),
        "volatility": np.concatenate([[np.nan], talib.STDDEV(daily, MEAN_DAYS)]),
        "return_10": np.log1p(talib.ROCP(close, 10)),
    }
    if prices.volume is not None:
        volume = prices.volume[first:, column].copy()
        found["volume"] = np.log1p(volume) - np.log1p(talib.SMA(volume, MEAN_DAYS))
    return np.concatenate([np.full(first, np.nan), found[name]])


CLOSE_FEATURES = ("rsi", "macd", "macd_signal", "trix", "sma20_distance", "volatility", "return_10")
CASES = [(sample, name) for sample in ("sp20", "etf23", "ohlcv5") for name in CLOSE_FEATURES]


@pytest.mark.parametrize(("sample", "name"), [*CASES, ("ohlcv5", "volume")])
def test_feature_equals_talib_on_every_symbol(sample: str, name: str) -> None:
    prices = read_sample(sample)
    ours = RawFeatures.of(prices).compute(name)
    compared = 0
    for column in range(len(prices.symbols)):
        theirs = talib_feature(name, prices, column)
        known = np.isfinite(theirs)
        # STDDEV of TA-Lib loses digits by subtracting running sums of squares; a relative 1e-6 is its precision.
        tolerance = 1e-6 if name == "volatility" else 1e-9
        np.testing.assert_allclose(ours[known, column], theirs[known], rtol=tolerance, atol=1e-10)
        compared += int(known.sum())
    assert compared > 9000


@pytest.mark.parametrize("name", ["rsi", "macd_signal", "trix", "sma20_distance", "volatility", "return_10"])
def test_first_known_day_is_the_lookback(name: str) -> None:
    prices = read_sample("ohlcv5")
    ours = RawFeatures.of(prices).compute(name)
    for column in range(len(prices.symbols)):
        first = int(np.argmax(prices.mask[:, column]))
        known = np.flatnonzero(np.isfinite(ours[:, column]))
        assert known[0] == first + lookback(name)
        assert np.isfinite(talib_feature(name, prices, column))[known[0]]


def test_flat_prices_give_the_same_rsi() -> None:
    flat = np.full((60, 1), 42.0)
    dates = np.arange(60).astype("datetime64[D]")
    ours = RawFeatures.of(Prices(dates, ("FLAT",), flat)).compute("rsi")[:, 0]
    np.testing.assert_array_equal(ours, talib.RSI(flat[:, 0].copy(), RSI_DAYS))
