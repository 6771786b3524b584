from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigen2.errors import ConfigError
from eigen2.market.config import FeatureName, MarketConfig
from eigen2.market.data import FloatArray
from eigen2.market.features import CLIP, RawFeatures, lookback, standardised
from eigen2.market.prices import Prices

NAMES: tuple[str, ...] = get_args(FeatureName)


def raw_features(prices: Prices) -> FloatArray:
    """[day, symbol, feature]"""
    raw = RawFeatures.of(prices)
    return np.stack([raw.compute(name) for name in NAMES], axis=-1)


def changed_after(prices: Prices, day: int, seed: int) -> Prices:
    """Every price after `day` replaced, some by gaps."""
    random = np.random.default_rng(seed)
    arrays = {}
    for name, array in prices.arrays().items():
        arrays[name] = array.copy()
        future = arrays[name][day + 1 :]
        future[:] = 1e3 * random.random(future.shape) + 1
        future[random.random(future.shape) < 0.2] = np.nan
    return Prices(prices.dates, prices.symbols, **arrays)


@settings(max_examples=25, deadline=None)
@given(day=st.integers(0, 398), seed=st.integers(0, 1000))
def test_no_raw_feature_knows_the_future(day: int, seed: int) -> None:
    prices = made(seed)
    before = raw_features(prices)[: day + 1]
    after = raw_features(changed_after(prices, day, seed))[: day + 1]
    np.testing.assert_array_equal(before, after)


def made(seed: int) -> Prices:
    random = np.random.default_rng(seed)
    close = 50 * np.exp(np.cumsum(0.02 * random.standard_normal((400, 3)), axis=0))
    close[: random.integers(1, 200), 1] = np.nan
    close[random.random((400, 3)) < 0.05] = np.nan
    volume = np.where(np.isnan(close), np.nan, np.round(1e5 * random.random((400, 3))))
    dates = np.busday_offset(np.datetime64("2010-01-04"), np.arange(400))
    return Prices(dates, ("A", "B", "C"), close, volume=volume)


def test_nothing_after_training_moves_the_scale(ragged: Prices) -> None:
    before = standardised(ragged, NAMES, train_stop=250)[:300]
    after = standardised(changed_after(ragged, 299, 1), NAMES, train_stop=250)[:300]
    np.testing.assert_array_equal(before, after)


def test_training_days_have_mean_zero_and_deviation_one(ragged: Prices) -> None:
    features = standardised(ragged, NAMES, train_stop=300)
    raw = raw_features(ragged)
    for position, name in enumerate(NAMES):
        known = np.isfinite(raw[:300, :, position])
        values = features[:300, :, position][known].astype(np.float64)
        assert abs(values.mean()) < 0.05, name
        assert 0.9 < values.std() < 1.02, name


def test_features_are_finite_and_zero_where_nothing_is_known(ragged: Prices) -> None:
    features = standardised(ragged, NAMES, train_stop=300)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    assert np.abs(features).max() <= CLIP
    assert (features[~ragged.mask] == 0).all()
    assert (features[np.isnan(raw_features(ragged))] == 0).all()
    assert (features[ragged.mask][:, NAMES.index("return_1")] != 0).mean() > 0.98


def test_a_late_listing_has_the_features_of_the_same_prices_listed_from_the_start(ragged: Prices) -> None:
    assert ragged.volume is not None
    alone = Prices(ragged.dates[120:], ("LATE",), ragged.close[120:, 1:2], volume=ragged.volume[120:, 1:2])
    np.testing.assert_allclose(
        raw_features(alone)[:, 0], raw_features(ragged)[120:, 1], rtol=1e-9, atol=1e-12
    )
    assert np.isnan(raw_features(ragged)[:120, 1]).all()


def test_the_return_after_a_hole_spans_the_hole_and_the_hole_stays_unknown(ragged: Prices) -> None:
    returns = RawFeatures.of(ragged).compute("return_1")[:, 3]
    assert np.isnan(returns[200:206]).all()
    assert returns[206] == pytest.approx(np.log(ragged.close[206, 3] / ragged.close[199, 3]))


def test_features_do_not_depend_on_the_level_of_prices(ragged: Prices) -> None:
    dearer = Prices(ragged.dates, ragged.symbols, 1000 * ragged.close, volume=ragged.volume)
    np.testing.assert_allclose(raw_features(dearer), raw_features(ragged), rtol=1e-6, atol=1e-10)


def test_every_feature_of_the_config_can_be_computed(ragged: Prices) -> None:
    for name in NAMES:
        known = np.isfinite(RawFeatures.of(ragged).compute(name)[:, 0])
        assert not known[: lookback(name)].any()
        assert known[lookback(name) :].all()


def test_volume_without_volume_is_a_config_error(ragged: Prices) -> None:
    with pytest.raises(ConfigError, match="remove it from env.features"):
        standardised(Prices(ragged.dates, ragged.symbols, ragged.close), ("volume",), 300)


def test_constant_prices_give_zeros() -> None:
    dates = np.arange(200).astype("datetime64[D]")
    flat = Prices(dates, ("A", "B"), np.full((200, 2), 7.0))
    assert (standardised(flat, MarketConfig().features, 150) == 0).all()


def test_markets_shorter_than_a_lookback_have_no_feature_and_no_error() -> None:
    dates = np.arange(5).astype("datetime64[D]")
    tiny = Prices(dates, ("A",), np.arange(1.0, 6)[:, None])
    assert np.isnan(RawFeatures.of(tiny).compute("trix")).all()
    assert (standardised(tiny, ("trix", "volatility", "return_60"), 3) == 0).all()
