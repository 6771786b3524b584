"""How the next generation arises. Dispatches on `alg.variation`; the operators themselves are in `evolution`."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eigen2 import seeds
from eigen2.algorithms.erl import evolution
from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.evolution import Birth, FloatArray, SearchDistribution
from eigen2.nets.stacked import Params, concatenate, flatten, layer_size, take, unflatten

MEAN = "cem.mean"
"""Operator in the lineage of the agent at the mean of the search distribution."""


class Variation:
    """Evolves `actors` of a fixed number; keeps what an operator remembers between generations."""

    def __init__(self, config: ERLConfig, actors: Params, seed: int) -> None:
        self.config, self.seed = config, seed
        self.scale = torch.cat([torch.full((v[0].numel(),), layer_size(v)) for v in actors.values()])
        """[parameter] typical size of a weight in its layer, the unit of CEM's noise."""
        self.distribution: SearchDistribution | None = None
        """Of CEM, None before the first selection."""
        self.averaged_mean: Tensor | None = None
        """[parameter] average of the distribution's means, the k-th with weight k."""
        self._age = 0
        """Generations since the search began."""

    def init_distribution(self, start: Params, count: int, generation: int) -> Params:
        """The search distribution around one agent; returns `count` agents drawn from it."""
        mean = flatten(start)[0]
        self.distribution = SearchDistribution(mean, (self.config.cem_std * self.scale).square())
        self.averaged_mean = mean
        noise = seeds.torch_generator(self.seed, "variation", generation)
        return evolution.sample_distribution(self.distribution, count, start, noise)

    def offspring(
        self, actors: Params, fitness: FloatArray, count: int, boost: float, generation: int
    ) -> tuple[Params, list[Birth]]:
        """`count` new agents from the evaluated `actors`; `boost` is the growth of mutation while validation stalls."""
        noise = seeds.torch_generator(self.seed, "variation", generation)
        if self.config.variation == "cem":
            return self._cem(actors, fitness, count, boost, generation, noise)
        choice = seeds.generator(self.seed, "parents", generation)
        best = evolution.ranking(fitness)[: self.config.elites]
        children: list[Params] = []
        births: list[Birth] = []
        for child in range(count):
            if math.ceil((child + 1) * self.config.crossover) > math.ceil(child * self.config.crossover):
                first = evolution.tournament(fitness, self.config.tournament, choice)
                second = evolution.tournament(fitness, self.config.tournament, choice)
                share = float(choice.uniform(0.2, 0.8))
                children.append(evolution.blend(take(actors, [first]), take(actors, [second]), share))
                births.append(Birth("crossover", (first, second)))
            else:
                parent = best[int(choice.integers(len(best)))]
                std = self.config.mutation_std * boost
                children.append(evolution.mutate_layers(take(actors, [parent]), std, noise))
                births.append(Birth("mutation.layer", (parent,)))
        return concatenate(children), births

    def _cem(
        self,
        actors: Params,
        fitness: FloatArray,
        count: int,
        boost: float,
        generation: int,
        noise: torch.Generator,
    ) -> tuple[Params, list[Birth]]:
        assert self.distribution is not None
        assert self.averaged_mean is not None
        parents = evolution.ranking(fitness)[: max(2, len(fitness) // 2)]
        floor = (self.config.cem_floor * boost * self.scale).square() * self.config.cem_decay**generation
        fitted = evolution.fit_distribution(self.distribution, actors, fitness, len(parents), floor)
        self._age += 1
        self.averaged_mean = torch.lerp(fitted.mean, self.averaged_mean, self._age / (self._age + 2.0))
        self.distribution = fitted
        mean = unflatten(self.averaged_mean.unsqueeze(0), actors)
        drawn = evolution.sample_distribution(fitted, count - 1, actors, noise)
        births = [Birth(MEAN, tuple(parents))] + [Birth("cem.sample", tuple(parents))] * (count - 1)
        return concatenate([mean, drawn]), births

    @property
    def nbytes(self) -> int:
        found = self.distribution
        return self.scale.nbytes + (0 if found is None else 3 * found.mean.nbytes)

    def state_dict(self) -> dict[str, Any]:
        found = self.distribution
        return {
            "distribution": None if found is None else {"mean": found.mean, "variance": found.variance},
            "averaged_mean": self.averaged_mean,
            "age": self._age,
            "scale": self.scale,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        found = state["distribution"]
        self.distribution = None if found is None else SearchDistribution(**found)
        self.averaged_mean, self.scale = state["averaged_mean"], state["scale"]
        self._age = int(state["age"])


def elites(actors: Params, fitness: FloatArray, count: int) -> tuple[Params, list[Birth]]:
    """The best agents, unchanged."""
    best = evolution.ranking(np.asarray(fitness))[:count]
    return take(actors, best), [Birth("elite", (index,)) for index in best]
