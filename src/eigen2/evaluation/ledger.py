"""The ledger of trials: what every candidate of a run earned on each validation day.

A result can only be corrected for selection if everything that was tried is on record. The ledger keeps one
float32 series per candidate evaluated, e.g. 16 agents x 25 generations x 252 days = 403 KB.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.evaluation.backtest import run_policy
from eigen2.evaluation.policies import equal_weight_benchmark
from eigen2.market.data import MarketData

CAPACITY = 4096
"""Series kept at most: 4,096 x 252 days = 4.1 MB. Longer runs are thinned evenly by generation."""


class TrialLedger:
    """Daily log returns of all candidates on the same validation days, and of equal weight on these days.

    When `capacity` is reached, every second kept generation is dropped and from then on only every second one is
    kept (then every fourth, ...): memory is bounded, `trials` still counts all, and what is kept spans the run.
    """

    def __init__(self, benchmark: npt.ArrayLike, capacity: int = CAPACITY) -> None:
        """`benchmark` `[day]`: log returns of equal weight on the days on which candidates are evaluated."""
        if capacity < 2:
            raise ValueError(f"a ledger keeps at least 2 trials, not {capacity}")
        self.benchmark = np.asarray(benchmark, dtype=np.float32)
        self.capacity = capacity
        self.trials = 0
        self._stride = 1
        self._generations = np.empty(0, dtype=np.int64)
        self._returns = np.empty((0, len(self.benchmark)), dtype=np.float32)

    @property
    def returns(self) -> npt.NDArray[np.float32]:
        """Kept series `[trial, day]`, in the order of recording."""
        return self._returns

    @property
    def excess(self) -> npt.NDArray[np.float64]:
        """Kept series less equal weight, `[trial, day]`."""
        return self._returns.astype(np.float64) - self.benchmark.astype(np.float64)

    @property
    def nbytes(self) -> int:
        return self._returns.nbytes + self._generations.nbytes + self.benchmark.nbytes

    def record(self, generation: int, returns: npt.ArrayLike) -> None:
        """Add what the agents of one generation earned: log returns `[agent, day]`."""
        series = np.asarray(returns, dtype=np.float32)
        if series.ndim != 2 or series.shape[1] != len(self.benchmark):
            raise ValueError(
                f"trial returns must be [agent, {len(self.benchmark)}], not {list(series.shape)}"
            )
        if not np.isfinite(series).all():
            raise ValueError(f"trial returns of generation {generation} are not finite")
        if len(series) > self.capacity:
            raise ValueError(f"{len(series)} agents do not fit into a ledger of {self.capacity} trials")
        self.trials += len(series)
        while len(self._returns) + len(series) > self.capacity and len(self._returns):
            self._stride *= 2
            self._keep(self._generations % self._stride == 0)
        if generation % self._stride == 0:
            self._returns = np.concatenate([self._returns, series])
            self._generations = np.concatenate([self._generations, np.full(len(series), generation)])

    def state_dict(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark.copy(),
            "capacity": self.capacity,
            "trials": self.trials,
            "stride": self._stride,
            "generations": self._generations.copy(),
            "returns": self._returns.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        benchmark = np.asarray(state["benchmark"], dtype=np.float32)
        if not np.array_equal(benchmark, self.benchmark):
            raise ValueError("the saved ledger was kept on other validation days than this run's")
        self.capacity = int(state["capacity"])
        self.trials = int(state["trials"])
        self._stride = int(state["stride"])
        self._generations = np.array(state["generations"], dtype=np.int64)
        self._returns = np.array(state["returns"], dtype=np.float32)

    def _keep(self, rows: npt.NDArray[np.bool_]) -> None:
        self._returns = self._returns[rows]
        self._generations = self._generations[rows]


def trial_ledger(
    market: MarketData, config: TradingConfig, validated_days: npt.NDArray[np.int64]
) -> TrialLedger:
    """An empty ledger. `validated_days` `[day]` count from the second day of the validation split: the closes at which
    candidates are valued."""
    benchmark = equal_weight_benchmark(market, config, market.validation)
    played = run_policy(TradingCore(market, benchmark.config, 1), benchmark.policy, market.validation)
    return TrialLedger(played.log_returns[0, validated_days])
