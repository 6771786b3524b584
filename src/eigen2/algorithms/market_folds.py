"""The folds of a walk-forward on a market, for every algorithm that learns one."""

from functools import partial
from typing import TYPE_CHECKING

from eigen2.algorithms.contract import WalkForward
from eigen2.envs.config import TradingConfig
from eigen2.evaluation.walk_forward import fold_ends, joined
from eigen2.market.data import MarketData

if TYPE_CHECKING:
    from eigen2.config import Config


def market_folds(config: "Config", market: MarketData, folds: int) -> WalkForward:
    env = config.env
    assert isinstance(env, TradingConfig)
    configs = [
        config.model_copy(update={"env": env.model_copy(update={"end": end})})
        for end in fold_ends(market, env, folds)
    ]
    return WalkForward(configs, partial(joined, market, env, seed=config.seed))
