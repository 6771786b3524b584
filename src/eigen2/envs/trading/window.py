"""The full market window as an array, for libraries that cannot rebuild it from the day."""

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from eigen2.envs.trading.env import ObservationDict, TradingEnv, observation_space
from eigen2.market.data import MarketData


def market_window(market: MarketData, day: int, window: int) -> npt.NDArray[np.float32]:
    """Features of the last `window` days up to and including `day`, [window, symbol, feature]; zero before day 0."""
    view = market.features[max(day - window + 1, 0) : day + 1]
    if len(view) == window:
        return view
    padded = np.zeros((window, *view.shape[1:]), np.float32)
    padded[window - len(view) :] = view
    return padded


class WindowObservation(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Replaces `day` by `window` [window, symbol, feature], all symbols included, those that only give context too."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        trading = env.unwrapped
        if not isinstance(trading, TradingEnv):
            raise TypeError(f"WindowObservation wraps eigen2/Trading-v0, not {type(trading).__name__}")
        self._market, self._window = trading.market, trading.config.window
        shape = (self._window, *self._market.features.shape[1:])
        rest = {name: space for name, space in observation_space(trading.core).items() if name != "day"}
        self.observation_space = spaces.Dict(
            {"window": spaces.Box(-np.inf, np.inf, shape, np.float32), **rest}
        )

    def observation(self, observation: ObservationDict) -> ObservationDict:
        rest = {name: values for name, values in observation.items() if name != "day"}
        # A copy: consumers may write into what they are given, the market must not change.
        window = market_window(self._market, int(observation["day"][0]), self._window).copy()
        return {"window": window, **rest}
