"""How the next generation arises. Dispatches on `alg.variation`; the operators themselves are in `evolution`."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eigen2 import seeds
from eigen2.erl import evolution
from eigen2.erl.config import ERLConfig
from eigen2.erl.evolution import Birth, Cloud, FloatArray
from eigen2.nets.stacked import Params, concatenate, flatten, layer_size, take, unflatten

MIDDLE = "cem.middle"
"""Operator in the lineage of the agent at the middle of the cloud."""


class Variation:
    """Evolves `actors` of a fixed number; keeps what an operator remembers between generations."""

    def __init__(self, config: ERLConfig, actors: Params, seed: int) -> None:
        self.config, self.seed = config, seed
        self.scale = torch.cat([torch.full((v[0].numel(),), layer_size(v)) for v in actors.values()])
        """[parameter] typical size of a weight in its layer, the unit of CEM's noise."""
        self.cloud: Cloud | None = None
        self.middle: Tensor | None = None
        """[parameter] average of the cloud's means since it was founded, the k-th with weight k."""
        self._age = 0
        """Generations since the cloud was founded."""

    def found(self, founder: Params, count: int, generation: int) -> tuple[Params, Params]:
        """Opens the cloud around one agent. -> the middle and `count` agents drawn from the cloud"""
        mean = flatten(founder)[0]
        self.cloud, self.middle = Cloud(mean, (self.config.cem_std * self.scale).square()), mean
        noise = seeds.torch_generator(self.seed, "variation", generation)
        return take(founder, slice(None)), evolution.sample_cloud(self.cloud, count, founder, noise)

    def offspring(
        self, actors: Params, fitness: FloatArray, count: int, boost: float, generation: int,
        sensitivity: Params | None = None,
    ) -> tuple[Params, list[Birth]]:  # fmt: skip
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
                children.append(self._mutant(take(actors, [parent]), boost, noise, parent, sensitivity))
                births.append(Birth(f"mutation.{self.config.variation}", (parent,)))
        return concatenate(children), births

    def _mutant(
        self, parent: Params, boost: float, noise: torch.Generator, index: int, sensitivity: Params | None
    ) -> Params:
        std = self.config.mutation_std * boost
        if self.config.variation == "genetic":
            return evolution.mutate_sparse(parent, self.config.mutation_rate, std, noise)
        if self.config.variation == "proximal" and sensitivity is not None:
            return evolution.mutate_proximal(parent, std, take(sensitivity, [index]), noise)
        return evolution.mutate_layers(parent, std, noise)

    def _cem(
        self,
        actors: Params,
        fitness: FloatArray,
        count: int,
        boost: float,
        generation: int,
        noise: torch.Generator,
    ) -> tuple[Params, list[Birth]]:
        assert self.cloud is not None
        assert self.middle is not None
        parents = evolution.ranking(fitness)[: max(2, len(fitness) // 2)]
        floor = (self.config.cem_floor * boost * self.scale).square() * self.config.cem_decay**generation
        self.cloud = evolution.fit_cloud(self.cloud, actors, fitness, len(parents), floor)
        self._age += 1
        self.middle = torch.lerp(self.cloud.mean, self.middle, self._age / (self._age + 2.0))
        middle = unflatten(self.middle.unsqueeze(0), actors)
        drawn = evolution.sample_cloud(self.cloud, count - 1, actors, noise)
        births = [Birth(MIDDLE, tuple(parents))] + [Birth("cem.sample", tuple(parents))] * (count - 1)
        return concatenate([middle, drawn]), births

    def state_dict(self) -> dict[str, Any]:
        cloud = None if self.cloud is None else {"mean": self.cloud.mean, "variance": self.cloud.variance}
        return {"cloud": cloud, "middle": self.middle, "age": self._age, "scale": self.scale}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.cloud = None if state["cloud"] is None else Cloud(**state["cloud"])
        self.middle, self._age, self.scale = state["middle"], int(state["age"]), state["scale"]


def elites(actors: Params, fitness: FloatArray, count: int) -> tuple[Params, list[Birth]]:
    """The best agents, unchanged."""
    best = evolution.ranking(np.asarray(fitness))[:count]
    return take(actors, best), [Birth("elite", (index,)) for index in best]
