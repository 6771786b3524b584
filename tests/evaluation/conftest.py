"""Small markets and rules shared by the evaluation tests."""

import pytest

from eigen2.envs.config import TradingConfig
from eigen2.market.data import MarketData
from eigen2.market.load import load_market

SEED = 7


@pytest.fixture(scope="session")
def planted() -> tuple[MarketData, TradingConfig]:
    """(market, config) with a strong planted effect and portfolio weights."""
    config = TradingConfig(
        data="planted_momentum", actions="weights", synthetic={"days": 3000, "symbols": 12}
    )
    return load_market(config, SEED), config


@pytest.fixture(scope="session")
def noise() -> tuple[MarketData, TradingConfig]:
    """(market, config) where nothing can be known, with orders."""
    config = TradingConfig(data="random_walk", synthetic={"days": 1200, "symbols": 8})
    return load_market(config, SEED), config


@pytest.fixture(scope="session")
def sp20() -> tuple[MarketData, TradingConfig]:
    config = TradingConfig(data="sp20")
    return load_market(config, SEED), config
