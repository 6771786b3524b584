"""How one generation becomes the next: who survives, who keeps learning, who is replaced, who is bred anew.

Learners sit in the first slots. With CEM, the agents of the first generation are independent; then the search
distribution starts from the best of them, so that its members are near enough to each other to be averaged. An untrained copy of a
good learner survives as an elite, and a learner that falls behind is replaced by a better agent, so gradient and
evolution compete and feed each other. Where all agents learn, they compete with each other (`tournament`).
"""

from dataclasses import dataclass

import numpy as np

from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.ddpg import Learners
from eigen2.algorithms.erl.evolution import Birth, FloatArray, ranking
from eigen2.algorithms.erl.genealogy import SKIPPED, Genealogy
from eigen2.algorithms.erl.variation import MEAN, Variation, elites
from eigen2.nets.stacked import Params, agents_in, concatenate, put, take


@dataclass(frozen=True)
class Generation:
    """A population that has been evaluated and, perhaps, trained."""

    number: int
    evaluated: Params
    """As they were when `fitness` was measured."""
    fitness: FloatArray
    """[agent]"""
    actors: Params
    """With the learners as training left them."""
    trained: bool
    boost: float
    """Growth of mutation while validation stalls."""

    @property
    def carried(self) -> str:
        """The operator of learners that carry on."""
        return "gradient" if self.trained else SKIPPED


class Breeder:
    def __init__(self, config: ERLConfig, actors: Params, learners: Learners | None, seed: int) -> None:
        self.config, self.learners = config, learners
        self.variation = Variation(config, actors, seed)
        self.genealogy = Genealogy(config.population, config.learners)

    def breed(self, old: Generation) -> Params:
        """The next generation's actors; the genealogy says how each came to be."""
        config = self.config
        searching = config.variation == "cem" and config.learners < config.population
        if config.variation == "none":
            actors, births = old.actors, self._unchanged(old)
        elif searching and self.variation.distribution is None:
            actors, births = self._start_search(old, ranking(old.fitness)[0])
        elif config.variation == "tournament":
            actors, births = self._compete(old)
        else:
            actors, births = self._select(old)
        self.genealogy.descend(births, old.number + 1)
        if len(births) != config.population or agents_in(actors) != config.population:
            raise AssertionError(f"the population changed from {config.population} to {len(births)} agents")
        return actors

    def mean_slots(self) -> list[int]:
        """The slot of the agent at the mean of the search distribution, if there is one."""
        return [slot for slot, birth in enumerate(self.genealogy.births) if birth.operator == MEAN]

    def _unchanged(self, old: Generation) -> list[Birth]:
        learners = self.config.learners
        return [Birth(old.carried if i < learners else "elite", (i,)) for i in range(self.config.population)]

    def _start_search(self, old: Generation, best: int) -> tuple[Params, list[Birth]]:
        """The best agent is the mean of the search distribution: it carries on if it learns, all others are drawn."""
        count, learners = self.config.population, self.config.learners
        start = take(old.evaluated, [best])
        drawn = self.variation.init_distribution(start, count, old.number)
        births = [Birth("cem.sample", (best,))] * count
        put(drawn, [learners], start)
        births[learners] = Birth(MEAN, (best,))
        if best < learners:
            put(drawn, [best], take(old.actors, [best]))
            births[best] = Birth(old.carried, (best,))
        if self.learners is not None:
            others = [slot for slot in range(learners) if slot != best]
            self.learners.reset(others, take(drawn, others))
        return drawn, births

    def _select(self, old: Generation) -> tuple[Params, list[Birth]]:
        config = self.config
        # A learner that was not trained survives as it is: a copy of it among the elites would be the same agent twice.
        rivals = np.where(np.arange(len(old.fitness)) < config.learners, -np.inf, old.fitness)
        best, births = elites(old.evaluated, old.fitness if old.trained else rivals, config.survivors)
        parts = [best]
        if config.bred:
            children, born = self.variation.offspring(
                old.evaluated, old.fitness, config.bred, old.boost, old.number
            )
            parts.append(children)
            births += born
        if self.learners is not None:
            parts.insert(0, take(old.actors, slice(0, config.learners)))
            births = self._replace(old, self.learners, parts[0]) + births
        return concatenate(parts), births

    def _compete(self, old: Generation) -> tuple[Params, list[Birth]]:
        """All agents learn. The elites carry on; the places of the others go to children of trained agents, which take the
        critics and moments of their fitter parent along."""
        assert self.learners is not None
        elite = ranking(old.fitness)[: self.config.elites]
        slots = [slot for slot in range(len(old.fitness)) if slot not in elite]
        children, born = self.variation.offspring(old.actors, old.fitness, len(slots), old.boost, old.number)
        fitter = [max(birth.parents, key=lambda slot: float(old.fitness[slot])) for birth in born]
        self.learners.inherit(slots, fitter, children)
        actors = take(old.actors, slice(None))
        put(actors, slots, children)
        births = [Birth(old.carried, (slot,)) for slot in range(len(old.fitness))]
        for slot, birth in zip(slots, born, strict=True):
            births[slot] = birth
        return actors, births

    def _replace(self, old: Generation, learners: Learners, actors: Params) -> list[Birth]:
        """Learners in the lower half of the population start again from the best that are no learners.

        Each takes another one: learners share their batches, so two of the same weights would stay the same for ever.
        `actors` are the learners', changed in place.
        """
        order = ranking(old.fitness)
        count = self.config.learners
        behind = [slot for slot in range(count) if order.index(slot) >= len(order) // 2]
        better = [slot for slot in order if slot >= count][: len(behind)]
        behind = behind[: len(better)]
        births = [Birth(old.carried, (slot,)) for slot in range(count)]
        if behind:
            best = take(old.evaluated, better)
            put(actors, behind, best)
            learners.reset(behind, best)
            for slot, parent in zip(behind, better, strict=True):
                births[slot] = Birth("replaced", (parent,))
        return births
