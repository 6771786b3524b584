"""Markets made to order: with one known effect planted in them, or with none.

All share a common market factor and independent noise, about 1.7 % of daily volatility per symbol, and close prices
only. A decision on day t's close is filled at the close of t + 1 and first earns the return of t + 2, so every
effect lasts for several days. `strength` scales the effect; 0 plants nothing.

Notation: r[s] log return of day s, d[s] = r[s] minus its mean over symbols, both [symbol].
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from eigen2 import seeds
from eigen2.errors import ConfigError
from eigen2.market.catalogue import EMBEDDED
from eigen2.market.config import SyntheticConfig
from eigen2.market.data import FloatArray
from eigen2.market.embedded import read_sample
from eigen2.market.prices import Prices

FIRST_PRICE: Final = 100.0
DRIFT: Final = 0.0004
MARKET_VOLATILITY: Final = 0.008
NOISE: Final = 0.015

REVERSAL_KERNEL: Final = np.array([1.0, 2.0, 3.0, 2.0, 1.0]) / 3.0
"""Weight of d[s - 1] ... d[s - 5]: the mean of the 3-day returns that ended 1, 2 and 3 days ago."""
REVERSAL: Final = 0.17

UP, DOWN = 0.0060, -0.0058
FLIP: Final = 0.04
"""Probability per day that a symbol's regime changes."""

LEAD_LAGS: Final = (2, 3, 4, 5)
LEAD: Final = 0.14


@dataclass(frozen=True)
class Noise:
    """What every generated market is made of: r = common + own + effect."""

    common: FloatArray
    """[day, 1]"""
    own: FloatArray
    """[day, symbol]"""

    @classmethod
    def draw(cls, config: SyntheticConfig, random: np.random.Generator) -> "Noise":
        common = DRIFT + MARKET_VOLATILITY * random.standard_normal((config.days, 1))
        return cls(common, NOISE * random.standard_normal((config.days, config.symbols)))


def market_seed(config: SyntheticConfig, seed: int) -> int:
    """The market's own seed, else the run's."""
    return seed if config.seed is None else config.seed


def stream(name: str, seed: int) -> np.random.Generator:
    """The random stream of a synthetic market."""
    return seeds.generator(seed, f"market.{name}")


def reversal(config: SyntheticConfig, seed: int) -> FloatArray:
    """What fell most against the others over about 3 days rises: r[s] = noise - a * sum_j K_j d[s - j]."""
    noise = Noise.draw(config, stream("planted_reversal", seed))
    kernel = -REVERSAL * config.strength * REVERSAL_KERNEL[:, None]
    returns = noise.common + noise.own
    excess = returns - returns.mean(axis=1, keepdims=True)
    lags = len(kernel)
    for day in range(lags, config.days):
        returns[day] += (kernel * excess[day - lags : day][::-1]).sum(axis=0)
        excess[day] = returns[day] - returns[day].mean()
    return returns


def regimes(config: SyntheticConfig, seed: int) -> npt.NDArray[np.bool_]:
    """[day, symbol] True while a symbol drifts up."""
    random = stream("planted_momentum.regimes", seed)
    start = random.permutation(config.symbols) < config.symbols // 2
    flips = random.random((config.days, config.symbols)) < FLIP
    return np.asarray(start[None, :] ^ (np.cumsum(flips, axis=0) % 2 == 1))


def momentum(config: SyntheticConfig, seed: int) -> FloatArray:
    """About half of the symbols drift up, the others down; each changes its mind with 4 % a day."""
    noise = Noise.draw(config, stream("planted_momentum", seed))
    return noise.common + noise.own + config.strength * np.where(regimes(config, seed), UP, DOWN)


def leaders(symbols: int) -> npt.NDArray[np.int64]:
    """[symbol] the symbol each one follows; leaders (the first third) follow themselves, that is nobody."""
    count = max(1, symbols // 3)
    position = np.arange(symbols)
    return np.where(position < count, position, position % count)


def lead_lag(config: SyntheticConfig, seed: int) -> FloatArray:
    """Followers repeat part of their leader's excess two to five days later: r[s] = noise + b * sum_j d_leader[s - j]."""
    noise = Noise.draw(config, stream("planted_lead_lag", seed))
    leader = leaders(config.symbols)
    strength = LEAD * config.strength * (leader != np.arange(config.symbols))
    returns = noise.common + noise.own
    excess = returns - returns.mean(axis=1, keepdims=True)
    for day in range(max(LEAD_LAGS), config.days):
        past = sum(excess[day - lag] for lag in LEAD_LAGS)
        returns[day] += strength * past[leader]
        excess[day] = returns[day] - returns[day].mean()
    return returns


def random_walk(config: SyntheticConfig, seed: int) -> FloatArray:
    """Independent days."""
    noise = Noise.draw(config, stream("random_walk", seed))
    return noise.common + noise.own


_RETURNS: dict[str, Callable[[SyntheticConfig, int], FloatArray]] = {
    "planted_reversal": reversal,
    "planted_momentum": momentum,
    "planted_lead_lag": lead_lag,
    "random_walk": random_walk,
}


def generate(name: str, config: SyntheticConfig, seed: int) -> Prices:
    """The prices of a synthetic market; the same name, config and seed always give the same prices."""
    if name == "shuffled":
        return shuffled(config.source, seed)
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding market is refused below
        returns = _RETURNS[name](config, seed)
    if not (np.abs(returns) < 1.0).all():
        raise ConfigError(f"env.synthetic.strength={config.strength} makes {name} explode; 1 is the default")
    dates = np.busday_offset(np.datetime64("2000-01-03"), np.arange(config.days))
    width = max(2, len(str(config.symbols)))
    symbols = tuple(f"S{number:0{width}d}" for number in range(1, config.symbols + 1))
    return Prices(dates, symbols, FIRST_PRICE * np.exp(np.cumsum(returns, axis=0)))


def shuffled(source: str, seed: int) -> Prices:
    """A sample whose days of returns come in random order, the same for all symbols.

    Correlation between symbols survives, everything that one day says about the next is gone. Symbols that are not
    listed throughout are left out.
    """
    if source not in EMBEDDED:
        raise ConfigError(f"env.synthetic.source is {source!r}; it must be one of {', '.join(EMBEDDED)}")
    prices = read_sample(source)
    complete = prices.mask.all(axis=0)
    close = prices.close[:, complete]
    returns = np.diff(np.log(close), axis=0)
    order = stream("shuffled", seed).permutation(len(returns))
    path = np.concatenate([np.zeros((1, close.shape[1])), np.cumsum(returns[order], axis=0)])
    symbols = tuple(prices.symbols[position] for position in np.flatnonzero(complete))
    return Prices(prices.dates, symbols, close[0] * np.exp(path))
