"""The champion and the hall of fame: the best agents by the same validation windows for the whole run."""

from dataclasses import dataclass
from typing import Any

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

    @property
    def champion(self) -> Params:
        assert self.actors is not None
        return take(self.actors, [0])

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
