"""The champion and the hall of fame, by the same validation windows for the whole run."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from eigen2.erl.evolution import FloatArray, ranking
from eigen2.nets.stacked import Params, concatenate, take


@dataclass(frozen=True)
class Honour:
    score: float
    generation: int
    agent: int


class HallOfFame:
    """The best `size` agents ever, best first; a newcomer must be strictly better to take a place."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.honours: list[Honour] = []
        self.actors: Params | None = None
        """Stacked, in the order of `honours`."""

    def consider(self, actors: Params, scores: FloatArray, generation: int, agents: list[int]) -> bool:
        """Enter the population's best; True when there is a new champion."""
        before = self.best
        for index in ranking(scores)[: self.size]:
            honour = Honour(float(scores[index]), generation, agents[index])
            place = sum(known.score >= honour.score for known in self.honours)
            actor = take(actors, [index])
            if place < self.size and not self._holds(actor):
                self._insert(place, honour, actor)
        return self.best > before

    @property
    def best(self) -> float:
        return self.honours[0].score if self.honours else float("-inf")

    def _holds(self, actor: Params) -> bool:
        """Elites are validated again in every generation; each agent takes one place."""
        known = self.actors
        if known is None:
            return False
        equal = [(known[name] == value).flatten(1).all(1) for name, value in actor.items()]
        return bool(torch.stack(equal).all(0).any())

    def _insert(self, place: int, honour: Honour, actor: Params) -> None:
        self.honours = [*self.honours[:place], honour, *self.honours[place:]][: self.size]
        if self.actors is None:
            self.actors = actor
            return
        parts = [take(self.actors, slice(0, place)), actor, take(self.actors, slice(place, None))]
        self.actors = take(concatenate(parts), slice(0, self.size))

    def state_dict(self) -> dict[str, Any]:
        return {
            "honours": [[h.score, h.generation, h.agent] for h in self.honours],
            "actors": {} if self.actors is None else dict(self.actors),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.honours = [Honour(float(s), int(g), int(a)) for s, g, a in state["honours"]]
        self.actors = dict(state["actors"]) or None


class Champion:
    """The agent that stands for the run, by its returns on the validation windows.

    Validation windows are few: among agents that are nearly equal, the one with the highest score is the luckiest, and
    the more are asked the luckier it is. So once a population has a middle, only its middle stands for the title. It
    holds it as long as no earlier middle was better by more than one standard error of their paired difference; before
    that, and where there is no middle, the agent with the highest mean ever holds it.
    """

    def __init__(self) -> None:
        self._actor: Params | None = None
        self.returns: FloatArray = np.empty(0)
        """[window] of the champion."""
        self.generation = 0
        self.agent = 0
        self._record: FloatArray = np.empty(0)
        """[window] of the best middle so far; empty before the first."""

    @property
    def crowned(self) -> bool:
        """False before the first validation."""
        return self._actor is not None

    @property
    def actor(self) -> Params:
        assert self._actor is not None
        return take(self._actor, slice(None))

    @property
    def score(self) -> float:
        return float(self.returns.mean()) if self.crowned else float("-inf")

    def challenge(self, actor: Params, returns: FloatArray, generation: int, agent: int) -> None:
        """An agent that must be strictly better."""
        if returns.mean() > self.score:
            self._crown(actor, returns, generation, agent)

    def succeed(self, actor: Params, returns: FloatArray, generation: int, agent: int) -> None:
        """The middle of a population, which must not be clearly worse than an earlier one."""
        if not len(self._record) or returns.mean() > self._record.mean():
            self._record = returns.copy()
        if not clearly_better(self._record, returns):
            self._crown(actor, returns, generation, agent)

    def _crown(self, actor: Params, returns: FloatArray, generation: int, agent: int) -> None:
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
