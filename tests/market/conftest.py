from pathlib import Path

import numpy as np
import pytest

from eigen2.market.config import MarketConfig, SyntheticConfig
from eigen2.market.prices import Prices


@pytest.fixture
def small() -> MarketConfig:
    """A synthetic market that loads in milliseconds and still has every split."""
    return MarketConfig(
        data="random_walk",
        window=16,
        validation_days=40,
        holdout_days=40,
        embargo_days=5,
        synthetic=SyntheticConfig(days=300, symbols=5),
    )


@pytest.fixture
def ragged() -> Prices:
    """OHLCV of four symbols: always listed, listed late, delisted early, with a hole inside. [400, 4]"""
    random = np.random.default_rng(3)
    close = 50 * np.exp(np.cumsum(0.02 * random.standard_normal((400, 4)), axis=0))
    close[:120, 1] = np.nan
    close[330:, 2] = np.nan
    close[200:206, 3] = np.nan
    spread = 1 + 0.01 * random.random((400, 4))
    volume = np.where(np.isnan(close), np.nan, np.round(1e5 * random.random((400, 4))))
    dates = np.busday_offset(np.datetime64("2010-01-04"), np.arange(400))
    return Prices(
        dates, ("ALL", "LATE", "GONE", "HOLE"), close, close, close * spread, close / spread, volume
    )


@pytest.fixture
def ragged_file(ragged: Prices, tmp_path: Path) -> Path:
    import pyarrow.csv as arrow_csv

    from eigen2.market.canonical import long_table

    path = tmp_path / "ragged.csv"
    table = long_table(ragged)
    arrow_csv.write_csv(table.set_column(1, "symbol", table["symbol"].cast("string")), path)
    return path
