"""Random play with a champion's own habits: what its activity earns without its judgement."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import Observation
from eigen2.envs.trading.weights import LOGIT_BOUND
from eigen2.evaluation.backtest import Backtest, Strategy
from eigen2.evaluation.policies import first_day, known_symbols
from eigen2.market.data import MarketData

HELD = 1e-4
"""Share of equity from which a symbol counts as held: a softmax never gives exactly nothing."""


@dataclass(frozen=True)
class Activity:
    """How much a policy trades, whatever it trades."""

    trades_per_day: float
    """Positions opened per decision day."""
    holding_days: float
    """Mean days a position is held."""
    exposure: float
    """Mean share of equity invested."""
    breadth: float
    """Mean effective number of holdings, 1 / sum of squared shares."""
    turnover: float
    """Mean daily value bought and sold, as a share of equity, after the first day."""


def activity_of(backtest: Backtest, decision_days: int) -> Activity:
    """The habits of the first portfolio of `backtest`."""
    weights = backtest.weights[0].astype(np.float64)
    invested = weights.sum(axis=1)
    squares = (weights**2).sum(axis=1)
    breadth = np.divide(invested**2, squares, out=np.zeros_like(squares), where=squares > 0.0)
    trades = int(backtest.trades[0])
    return Activity(
        trades_per_day=trades / decision_days,
        holding_days=float((weights > HELD).sum() / trades) if trades else 0.0,
        exposure=float(invested.mean()),
        breadth=float(breadth[squares > 0.0].mean()) if (squares > 0.0).any() else 0.0,
        turnover=float(backtest.turnover[0, 1:].mean()) if backtest.turnover.shape[1] > 1 else 0.0,
    )


def usual_activity(symbols: int) -> Activity:
    """Habits of random play when there is no champion to imitate."""
    breadth = max(1.0, symbols / 2)
    return Activity(trades_per_day=0.5, holding_days=5.0, exposure=1.0, breadth=breadth, turnover=0.1)


def random_benchmark(config: TradingConfig, activity: Activity, generator: np.random.Generator) -> Strategy:
    play = RandomWeights if config.actions == "weights" else RandomOrders
    return Strategy("random", config, play(activity, generator))


class RandomOrders:
    """Opens as many positions as the champion, in random symbols, and holds them as long on average.

    `orders` sells each holding with probability 1 / holding_days a day. `original` has no exit of its own: there
    the sale targets are random, as everything else.
    """

    def __init__(self, activity: Activity, generator: np.random.Generator) -> None:
        self._activity = activity
        self._generator = generator
        self._owed = np.zeros(0)

    def __call__(
        self, observation: Observation, market: MarketData, config: TradingConfig
    ) -> npt.NDArray[np.float64]:
        batch, symbols = len(observation.day), len(market.tradable)
        if len(self._owed) != batch or first_day(observation).all():
            self._owed = np.zeros(batch)
        held = observation.positions[:, :, 0] > 0
        original = config.actions == "original"
        # What could not be opened yesterday (no free slot) stays owed, so that the count is kept.
        self._owed -= (held & (observation.positions[:, :, 2] == 0)).sum(axis=1)
        self._owed += self._activity.trades_per_day
        most = 1 if original else config.max_new_positions
        draw = self._generator.random(batch)
        count = np.clip(np.floor(self._owed + draw), 0, most)
        rank = np.where(
            held | ~known_symbols(observation, market), np.inf, self._generator.random(held.shape)
        )
        wanted = rank.argsort(axis=1).argsort(axis=1) < count[:, None]
        wanted &= np.isfinite(rank)
        leaves = held & (self._generator.random(held.shape) < 1.0 / max(1.0, self._activity.holding_days))
        action = np.empty((batch, symbols, 2))
        idle = -1.0 if original else 0.0
        action[:, :, 0] = np.where(wanted, 1.0, np.where(leaves, -1.0, idle))
        action[:, :, 1] = self._generator.random(held.shape) if original else 1.0
        return action


class RandomWeights:
    """Equal weights in as many random symbols as the champion's breadth, with its exposure.

    Each holding is exchanged for another random symbol with the probability that gives the champion's turnover.
    """

    def __init__(self, activity: Activity, generator: np.random.Generator) -> None:
        self._activity = activity
        self._generator = generator
        self._held = np.zeros((0, 0), dtype=np.bool_)

    def __call__(
        self, observation: Observation, market: MarketData, config: TradingConfig
    ) -> npt.NDArray[np.float64]:
        known = known_symbols(observation, market)
        if self._held.shape != known.shape or first_day(observation).all():
            self._held = np.zeros_like(known)
            leaves = self._held
        else:
            leaves = self._held & (self._generator.random(known.shape) < self._exchange)
        kept = self._held & known & ~leaves
        missing = round(self._activity.breadth) - kept.sum(axis=1)
        rank = np.where(kept | leaves | ~known, np.inf, self._generator.random(known.shape))
        drawn = (rank.argsort(axis=1).argsort(axis=1) < missing[:, None]) & np.isfinite(rank)
        self._held = kept | drawn
        return _logits_of(self._held, min(self._activity.exposure, 1.0))

    @property
    def _exchange(self) -> float:
        """Selling and buying a share q of the holdings every day turns 2 q x exposure over."""
        exposure = self._activity.exposure
        return min(1.0, self._activity.turnover / (2.0 * exposure)) if exposure > 0.0 else 0.0


def _logits_of(held: npt.NDArray[np.bool_], exposure: float) -> npt.NDArray[np.float64]:
    """Logits [B, N + 1] whose softmax spreads `exposure` evenly over the held symbols [B, N]."""
    count = np.maximum(held.sum(axis=1, keepdims=True), 1)
    shares = np.concatenate(
        [np.where(held, exposure / count, 0.0), np.full((len(held), 1), 1.0 - exposure)], axis=1
    )
    shares[:, -1] += exposure * ~held.any(axis=1)
    relative = np.log(np.maximum(shares, 1e-30)) - np.log(shares.max(axis=1, keepdims=True))
    return np.asarray(np.maximum(relative + LOGIT_BOUND, -LOGIT_BOUND))
