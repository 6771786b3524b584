from pathlib import Path

import numpy as np
import pytest

from eigen2.market.cache import feature_key
from eigen2.market.config import MarketConfig
from eigen2.market.load import load_market


def only_file(cache: Path) -> Path:
    (path,) = cache.iterdir()
    return path


def test_cached_features_are_the_computed_ones_and_read_only(small: MarketConfig, tmp_path: Path) -> None:
    plain = load_market(small, 0)
    first = load_market(small, 0, cache=tmp_path / "cache")
    path = only_file(tmp_path / "cache")
    written = path.stat().st_mtime_ns
    second = load_market(small, 0, cache=tmp_path / "cache")
    assert path.stat().st_mtime_ns == written
    for market in (first, second):
        np.testing.assert_array_equal(market.features, plain.features)
        assert not market.features.flags.writeable


def test_the_cache_is_really_used(small: MarketConfig, tmp_path: Path) -> None:
    load_market(small, 0, cache=tmp_path)
    path = only_file(tmp_path)
    other = load_market(small, 1, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    np.testing.assert_array_equal(load_market(small, 1, cache=tmp_path).features, other.features)
    loaded = np.load(path, allow_pickle=False)
    np.testing.assert_array_equal(loaded, load_market(small, 0).features)


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "pickle", "other shape"])
def test_damaged_cache_is_computed_again_and_replaced(
    damage: str, small: MarketConfig, tmp_path: Path
) -> None:
    expected = load_market(small, 0, cache=tmp_path).features
    path = only_file(tmp_path)
    good = path.read_bytes()
    bad = {
        "flip": good[:5000] + bytes([good[5000] ^ 1]) + good[5001:],
        "truncate": good[:-7],
        "empty": b"",
        "pickle": b"\x80\x04N.",
        "other shape": good[:-32].replace(b"(300, 5, 12)", b"(300, 12, 5)") + good[-32:],
    }[damage]
    path.write_bytes(bad)
    np.testing.assert_array_equal(load_market(small, 0, cache=tmp_path).features, expected)
    assert only_file(tmp_path).read_bytes() == good


def test_key_depends_on_prices_features_their_order_and_the_training_days() -> None:
    keys = {
        feature_key("a", ("rsi", "macd"), 10),
        feature_key("b", ("rsi", "macd"), 10),
        feature_key("a", ("macd", "rsi"), 10),
        feature_key("a", ("rsi",), 10),
        feature_key("a", ("rsi", "macd"), 11),
    }
    assert len(keys) == 5
