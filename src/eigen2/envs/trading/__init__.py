"""Trading: the vectorised core and its Gymnasium faces."""

from eigen2.envs.trading.core import Step, TradingCore
from eigen2.envs.trading.observation import ACCOUNT_FEATURES, POSITION_FEATURES, Observation

__all__ = ["ACCOUNT_FEATURES", "POSITION_FEATURES", "Observation", "Step", "TradingCore"]
