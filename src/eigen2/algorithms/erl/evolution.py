"""Selection and variation: pure functions on stacked parameters, each with its own random stream.

Nothing here knows an environment or a gradient. `parents` in the results are indices into the population given.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigen2.nets.stacked import Params, flatten, take, unflatten

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Birth:
    """How one agent of the next generation came to be."""

    operator: str
    parents: tuple[int, ...]


def ranking(fitness: FloatArray) -> list[int]:
    """Indices from best to worst; equal fitness keeps the lower index first."""
    return [int(i) for i in np.argsort(-fitness, kind="stable")]


def tournament(fitness: FloatArray, size: int, rng: np.random.Generator) -> int:
    """The fittest of `size` agents drawn without replacement."""
    drawn = rng.choice(len(fitness), size=min(size, len(fitness)), replace=False)
    return int(drawn[np.argmax(fitness[drawn])])


def blend(first: Params, second: Params, share: float) -> Params:
    """The original's crossover: a weighted mean of two parents."""
    return {name: share * first[name] + (1.0 - share) * second[name] for name in first}


def mutate_layers(parent: Params, std: float, rng: torch.Generator) -> Params:
    """Gaussian noise on every weight, scaled by its own layer's root mean square (at least 0.1 for fresh biases)."""
    child = {}
    for name, value in parent.items():
        scale = value.square().mean().sqrt().clamp(min=0.1)
        child[name] = value + std * scale * torch.randn(value.shape, generator=rng)
    return child


@dataclass(frozen=True)
class SearchDistribution:
    """A diagonal gaussian over the actor's parameters (CEM): mean `[parameter]`, variance `[parameter]`."""

    mean: Tensor
    variance: Tensor


def fit_distribution(
    old: SearchDistribution, actors: Params, fitness: FloatArray, keep: int, floor: Tensor
) -> SearchDistribution:
    """Move the mean to the log-weighted mean of the `keep` best; the variance is theirs around the old mean."""
    best = ranking(fitness)[:keep]
    weights = torch.log(torch.tensor(float(keep + 1))) - torch.log(torch.arange(1.0, keep + 1))
    weights = (weights / weights.sum()).unsqueeze(1)
    flat = flatten(take(actors, best))
    mean = (weights * flat).sum(0)
    variance = (weights * (flat - old.mean).square()).sum(0) + floor
    return SearchDistribution(mean, variance)


def sample_distribution(
    distribution: SearchDistribution, count: int, like: Params, rng: torch.Generator
) -> Params:
    noise = torch.randn(count, distribution.mean.numel(), generator=rng)
    return unflatten(distribution.mean + noise * distribution.variance.sqrt(), like)


@dataclass(frozen=True)
class Stall:
    """Adaptive mutation: grows while validation does not improve, falls back when it does."""

    best: float = -np.inf
    since: int = 0
    factor: float = 1.0

    def update(self, score: float, patience: int, growth: float, limit: float = 4.0) -> "Stall":
        if score > self.best:
            return Stall(score, 0, 1.0)
        since = self.since + 1
        factor = min(self.factor * growth, limit) if since % patience == 0 else self.factor
        return Stall(self.best, since, factor)
