"""Trading: the vectorised core and its Gymnasium interfaces."""

from eigen2.envs.trading.core import TradingCore, TradingStep
from eigen2.envs.trading.observation import ACCOUNT_FEATURES, POSITION_FEATURES, Observation

__all__ = ["ACCOUNT_FEATURES", "POSITION_FEATURES", "Observation", "TradingStep", "TradingCore"]
