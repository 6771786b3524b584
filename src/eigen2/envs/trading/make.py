"""What `gymnasium.make("eigen2/Trading-v0")` and `make_vec` call.

By default an observation holds the market: `window` [window, symbol, feature], the features of the last days up to the
one decided on, beside the portfolio. That is what a learner needs which knows nothing of markets. `observation="compact"`
gives the number of the `day` instead, for those who look the market up themselves (`env.unwrapped.market`).
"""

from typing import Any, Literal

import gymnasium
from gymnasium.vector import VectorEnv

from eigen2.envs.trading.env import TradingEnv, trading_config
from eigen2.envs.trading.vector import TradingVectorEnv
from eigen2.envs.trading.window import WindowObservation, WindowVectorObservation
from eigen2.errors import ConfigError
from eigen2.market.data import MarketData
from eigen2.market.load import load_market

Kind = Literal["window", "compact"]


def make_trading(
    market: MarketData | None = None,
    split: str = "train",
    market_seed: int = 0,
    observation: Kind = "window",
    **options: Any,
) -> gymnasium.Env[Any, Any]:
    """`gymnasium.make("eigen2/Trading-v0", data="sp20", ...)`: options are those of `TradingConfig`."""
    _check(observation)
    config = trading_config(options)
    env = TradingEnv(load_market(config, market_seed) if market is None else market, config, split)
    return env if observation == "compact" else WindowObservation(env)


def make_trading_vector(
    num_envs: int = 1,
    market: MarketData | None = None,
    split: str = "train",
    market_seed: int = 0,
    observation: Kind = "window",
    **options: Any,
) -> VectorEnv[Any, Any, Any]:
    """`gymnasium.make_vec("eigen2/Trading-v0", n, vectorization_mode="vector_entry_point", ...)`: one core for all."""
    _check(observation)
    config = trading_config(options)
    loaded = load_market(config, market_seed) if market is None else market
    envs = TradingVectorEnv(loaded, config, num_envs, split)
    return envs if observation == "compact" else WindowVectorObservation(envs)


def _check(observation: str) -> None:
    if observation not in ("window", "compact"):
        raise ConfigError(f"eigen2/Trading-v0 has observation=window or compact, not {observation!r}")
