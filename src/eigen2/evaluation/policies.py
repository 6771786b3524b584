"""What a champion must be compared with: doing nothing, owning everything, and acting at random.

The action rules cannot express every benchmark: `orders` opens one position a day and sells after 20 days. So each
benchmark brings its own rules and plays through the same core, on the same days, fills and costs:

* `equal_weight` buys every symbol that is known on its first day, with equal money, and holds. It plays `orders`
  with as many positions a day as there are symbols, no time limit and a target out of reach.
* `rebalanced` plays `weights` and returns to equal weights every day, paying for it.
* `cash` plays `orders` and never orders.

Holdings are valued, not sold, at the end.
"""

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import Observation
from eigen2.envs.trading.weights import LOGIT_BOUND
from eigen2.evaluation.backtest import Strategy
from eigen2.market.data import MarketData, Split

NEVER = 1e12
"""A sale target (as a gain) that no price reaches."""


def cash(observation: Observation, market: MarketData, config: TradingConfig) -> npt.NDArray[np.float64]:
    """Orders nothing; `orders` action [B, N, 2]."""
    return np.zeros((len(observation.day), len(market.tradable), 2))


def buy_and_hold(
    observation: Observation, market: MarketData, config: TradingConfig
) -> npt.NDArray[np.float64]:
    """Asks for every known symbol on the first day, and for nothing later; `orders` action [B, N, 2]."""
    action = cash(observation, market, config)
    wanted = first_day(observation)[:, None] & known_symbols(observation, market)
    action[:, :, 0] = wanted
    action[:, :, 1] = 1.0
    return action


def rebalanced(
    observation: Observation, market: MarketData, config: TradingConfig
) -> npt.NDArray[np.float64]:
    """The same weight for every symbol and none for cash; `weights` action [B, N + 1]."""
    logits = np.full((len(observation.day), len(market.tradable) + 1), LOGIT_BOUND)
    logits[:, -1] = -LOGIT_BOUND
    return logits


def equal_weight_benchmark(market: MarketData, config: TradingConfig, split: Split) -> Strategy:
    symbols = int(np.count_nonzero(market.mask[split.start, market.tradable]))
    rules = config.model_copy(
        update={
            "actions": "orders",
            "max_new_positions": max(1, symbols),
            "position_fraction": 1.0 / max(1, symbols),
            "max_holding_days": len(market.dates) + 1,
            "settlement_days": 0,
            "threshold": 0.5,
            "target_high": NEVER,
        }
    )
    return Strategy("equal_weight", rules, buy_and_hold)


def rebalanced_benchmark(config: TradingConfig) -> Strategy:
    return Strategy("rebalanced", config.model_copy(update={"actions": "weights"}), rebalanced)


def cash_benchmark(config: TradingConfig) -> Strategy:
    rules = config.model_copy(update={"actions": "orders", "settlement_days": 0})
    return Strategy("cash", rules, cash)


def first_day(observation: Observation) -> npt.NDArray[np.bool_]:
    """[B] whether nothing has happened yet: all of the episode's time is left."""
    return np.asarray(observation.account[:, 3] >= 1.0)


def known_symbols(observation: Observation, market: MarketData) -> npt.NDArray[np.bool_]:
    """[B, N] tradable symbols with a price on the observed day."""
    return np.asarray(market.mask[np.ix_(observation.day, market.tradable)])
