"""What every validated agent earned on each validation day, kept in the ledger of trials."""

from collections.abc import Sequence

import numpy as np

from eigen2.algorithms.erl.evolution import FloatArray
from eigen2.algorithms.erl.task import Episodes, RolloutResult
from eigen2.envs.config import TradingConfig
from eigen2.evaluation.ledger import trial_ledger
from eigen2.market.data import MarketData


class MarketTrials:
    def __init__(self, market: MarketData, env: TradingConfig, starts: Episodes, steps: int) -> None:
        """Validation episodes begin on the days `starts` and take `steps` days each."""
        ends = (starts - market.validation.start)[:, None] + np.arange(steps)
        self.days, self._column = np.unique(ends, return_inverse=True)
        """[day] of the validation split, counted from its second one, on which a validation episode runs."""
        self.ledger = trial_ledger(market, env, self.days)

    def record(self, generation: int, validated: Sequence[RolloutResult]) -> None:
        daily = [rollout.daily for rollout in validated if rollout.daily is not None]
        self.ledger.record(generation, self.stitch(np.concatenate(daily)))

    def stitch(self, daily: FloatArray) -> FloatArray:
        """Validation episodes `[agent, episode, step]` -> log returns `[agent, day]` on the validated days.

        Episodes overlap: a day earns what capital split evenly between the episodes that run on it earns.
        """
        shares = np.zeros((self._column.size, len(self.days)))
        shares[np.arange(self._column.size), self._column.ravel()] = 1.0
        growth = np.exp(daily).reshape(len(daily), -1) @ (shares / shares.sum(0))
        return np.asarray(np.log(growth))
