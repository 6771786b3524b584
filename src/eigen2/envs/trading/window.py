"""The full market window as an array, for libraries that cannot rebuild it from the day."""

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import VectorObservationWrapper
from gymnasium.vector.utils import batch_space

from eigen2.envs.trading.core import TradingCore
from eigen2.envs.trading.env import ObservationDict, TradingEnv, observation_space
from eigen2.envs.trading.vector import TradingVectorEnv
from eigen2.market.data import MarketData


def market_window(market: MarketData, day: int, window: int) -> npt.NDArray[np.float32]:
    """Features of the last `window` days up to and including `day`, [window, symbol, feature]; zero before day 0."""
    view = market.features[max(day - window + 1, 0) : day + 1]
    if len(view) == window:
        return view
    padded = np.zeros((window, *view.shape[1:]), np.float32)
    padded[window - len(view) :] = view
    return padded


def market_windows(market: MarketData, days: npt.NDArray[np.integer], window: int) -> npt.NDArray[np.float32]:
    """The windows of several days, [day, window, symbol, feature]."""
    return np.stack([market_window(market, int(day), window) for day in days])


def window_space(core: TradingCore) -> spaces.Dict:
    """The observation space with `window` in place of `day`."""
    shape = (core.config.window, *core.market.features.shape[1:])
    rest = {name: space for name, space in observation_space(core).items() if name != "day"}
    return spaces.Dict({"window": spaces.Box(-np.inf, np.inf, shape, np.float32), **rest})


class WindowObservation(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Replaces `day` by `window` [window, symbol, feature], all symbols included, those that only give context too."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        trading = env.unwrapped
        if not isinstance(trading, TradingEnv):
            raise TypeError(f"WindowObservation wraps eigen2/Trading-v0, not {type(trading).__name__}")
        if "window" in getattr(env.observation_space, "spaces", {}):
            raise TypeError("the observation has its window already: gymnasium.make gives it by default")
        self._market, self._window = trading.market, trading.config.window
        self.observation_space = window_space(trading.core)

    def observation(self, observation: ObservationDict) -> ObservationDict:
        rest = {name: values for name, values in observation.items() if name != "day"}
        # A copy: consumers may write into what they are given, the market must not change.
        window = market_window(self._market, int(observation["day"][0]), self._window).copy()
        return {"window": window, **rest}


class WindowVectorObservation(VectorObservationWrapper):
    """The same for n portfolios on one core: `window` is [n, window, symbol, feature]."""

    def __init__(self, env: TradingVectorEnv) -> None:
        super().__init__(env)
        self._market, self._window = env.core.market, env.core.config.window
        self.single_observation_space = window_space(env.core)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)

    def observations(self, observations: ObservationDict) -> ObservationDict:
        rest = {name: values for name, values in observations.items() if name != "day"}
        return {"window": market_windows(self._market, observations["day"][:, 0], self._window), **rest}
