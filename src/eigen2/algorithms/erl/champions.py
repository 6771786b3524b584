"""The champion, by the same validation windows for the whole run."""

from typing import Any

import numpy as np

from eigen2.algorithms.erl.evolution import FloatArray
from eigen2.errors import ConfigError
from eigen2.nets.stacked import Params, nbytes, take


class Champion:
    """The agent that stands for the run, by its returns on the validation windows.

    Validation windows are few: among agents that are nearly equal, the one with the highest score is the luckiest, and
    the more are asked the luckier it is. So once there is a search distribution, only its mean is considered. It is
    the champion as long as no earlier one was better by more than one standard error of their paired difference; before
    that, and without a search distribution, the champion is the agent with the highest score ever.
    """

    def __init__(self) -> None:
        self._actor: Params | None = None
        self.returns: FloatArray = np.empty(0)
        """[window] of the champion."""
        self.generation = 0
        self.agent = 0
        self._record: FloatArray = np.empty(0)
        """[window] of the best mean so far; empty before the first."""

    @property
    def actor(self) -> Params:
        if self._actor is None:
            raise ConfigError("The run has no champion before its first generation ends.")
        return take(self._actor, slice(None))

    @property
    def score(self) -> float:
        """-inf before the first validation."""
        return float(self.returns.mean()) if len(self.returns) else float("-inf")

    @property
    def nbytes(self) -> int:
        return nbytes(self._actor or {})

    def consider_agent(self, actor: Params, returns: FloatArray, generation: int, agent: int) -> None:
        """Promote an agent if it is strictly better."""
        if returns.mean() > self.score:
            self._promote(actor, returns, generation, agent)

    def consider_mean(self, actor: Params, returns: FloatArray, generation: int, agent: int) -> None:
        """Promote the mean of the search distribution unless it is clearly worse than an earlier one.

        One that scores exactly the same is not promoted: the champion's weights never change without its score.
        """
        if returns.mean() == self.score:
            return
        if not len(self._record) or returns.mean() > self._record.mean():
            self._record = returns.copy()
        if not clearly_better(self._record, returns):
            self._promote(actor, returns, generation, agent)

    def _promote(self, actor: Params, returns: FloatArray, generation: int, agent: int) -> None:
        self._actor, self.returns = take(actor, slice(None)), returns.copy()
        self.generation, self.agent = generation, agent

    def state_dict(self) -> dict[str, Any]:
        return {
            "actor": dict(self._actor or {}),
            "returns": self.returns.copy(),
            "generation": self.generation,
            "agent": self.agent,
            "record": self._record.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._actor = dict(state["actor"]) or None
        self.returns, self._record = np.array(state["returns"]), np.array(state["record"])
        self.generation, self.agent = int(state["generation"]), int(state["agent"])


def clearly_better(returns: FloatArray, others: FloatArray) -> bool:
    """True when the mean of the paired differences `[window]` is above their standard error."""
    ahead = returns - others
    if len(ahead) < 2:
        return bool(ahead.mean() > 0.0)
    return bool(ahead.mean() > ahead.std(ddof=1) / len(ahead) ** 0.5)
