"""Who is who: the agents' ids, how each of them came to be, and the records of `lineage.jsonl`."""

from typing import Any

import numpy as np

from eigen2.algorithms.erl.evolution import Birth, FloatArray

SKIPPED = "skipped"
"""Operator of a learner that was not trained in the generation before, because replay held too little."""


class Genealogy:
    """Learners sit in the first slots of the population; a slot's agent may change, an agent's id does not."""

    def __init__(self, population: int, learners: int) -> None:
        self._learners = learners
        self.ids = list(range(population))
        self.births = [Birth("born", ())] * population
        """Parents are slots of the generation before."""
        self.parents: list[tuple[int, ...]] = [()] * population
        """Ids of each agent's parents."""

    def descend(self, births: list[Birth], generation: int) -> None:
        """`births` made `generation`. Who did not change keeps its id.

        The untrained copy of a learner does not: the trained one was validated under that id.
        """
        before = self.ids
        self.births = births
        self.ids = [
            before[birth.parents[0]] if self._unchanged(birth) else generation * len(births) + slot
            for slot, birth in enumerate(births)
        ]
        self.parents = [tuple(before[i] for i in birth.parents) for birth in births]

    def _unchanged(self, birth: Birth) -> bool:
        return birth.operator == SKIPPED or (birth.operator == "elite" and birth.parents[0] >= self._learners)

    def records(
        self,
        generation: int,
        fitness: FloatArray,
        validation: FloatArray,
        distance: FloatArray,
        champion: int,
    ) -> list[dict[str, Any]]:
        """One per agent; `validation` is NaN for agents that were not validated, `champion` the id of the best so far."""
        return [
            {
                "generation": generation,
                "slot": slot,
                "agent": self.ids[slot],
                "operator": birth.operator,
                "parents": list(self.parents[slot]),
                "fitness": float(fitness[slot]),
                "validation": None if np.isnan(validation[slot]) else float(validation[slot]),
                "distance": round(float(distance[slot]), 6),
                **({"champion": True} if self.ids[slot] == champion else {}),
            }
            for slot, birth in enumerate(self.births)
        ]

    def state_dict(self) -> dict[str, Any]:
        return {
            "ids": list(self.ids),
            "births": [[birth.operator, list(birth.parents)] for birth in self.births],
            "parents": [list(parents) for parents in self.parents],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.ids = [int(i) for i in state["ids"]]
        self.births = [Birth(str(operator), tuple(parents)) for operator, parents in state["births"]]
        self.parents = [tuple(parents) for parents in state["parents"]]
