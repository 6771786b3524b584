"""A small real algorithm that leaks on demand: `python leaky.py KIND ROOT STEPS` trains it through the whole harness.

It runs in a process of its own: memory that another leak has freed would hide the growth.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from rich.console import Console

from eigen2.algorithms import registry
from eigen2.algorithms.contract import (
    Algorithm,
    AlgorithmConfig,
    Evaluation,
    Experiment,
    Metrics,
    Services,
    Trainer,
)
from eigen2.config import Config
from eigen2.errors import StoppedEarly
from eigen2.harness.training import resume_run, start_run

NUMBERS = 500_000
"""Of float64 in each leaked array: 4 MB."""


class LeakyConfig(AlgorithmConfig):
    kind: Literal["leaky"] = "leaky"
    leak: str = "nothing"
    steps: int = 24


class TableEnv(gymnasium.Env[Any, Any]):
    """An environment that is as heavy as a market."""

    def __init__(self) -> None:
        self.table = np.ones(NUMBERS)


class Regression(Trainer):
    phases = ("evaluate", "train", "evolve")
    filling = ("experience",)

    def __init__(self, config: LeakyConfig, services: Services) -> None:
        self.config, self.services, self.taken = config, services, 0
        self.network = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
        self.losses: list[torch.Tensor] = []
        self.environments: list[TableEnv] = []
        self.cache: dict[int, Any] = {}
        self.table = np.empty(10_000, object)
        self.iterators: list[Any] = []
        self.experience: list[Any] = []
        self.ballast = np.ones(int(os.environ.get("LEAKY_BALLAST", "0")), np.uint8)

    @property
    def steps(self) -> int:
        return self.config.steps

    @property
    def done(self) -> bool:
        return self.taken >= self.steps

    @property
    def best_score(self) -> float:
        return 0.0

    def step(self) -> Metrics:
        report, leak = self.services.progress, self.config.leak
        report("evaluate", 0, 1)
        inputs = torch.from_numpy(
            np.random.Generator(np.random.PCG64(self.taken)).normal(size=(2000, 64)).astype(np.float32)
        )
        environment = TableEnv()
        if leak == "environments":
            self.environments.append(environment)
        if leak == "filling":
            self.experience.append(np.ones(NUMBERS))
        report("evaluate", 1, 1)
        report("train", 0, 1)
        loss = (self.network(inputs) * float(environment.table[0])).square().mean()
        loss.backward(retain_graph=leak == "graphs")
        if leak == "graphs":
            self.losses.append(loss)
        if leak == "objects_array":
            self.table[self.taken] = np.ones(NUMBERS)
        if leak == "iterator":
            self.iterators.append(np.ones(NUMBERS).flat)
        report("train", 1, 1)
        report("evolve", 0, 1)
        if leak == "cache":
            self.cache[self.taken] = {"weights": np.ones(NUMBERS)}
        if leak == "objects":
            self.cache[self.taken] = [[i] for i in range(40_000)]
        report("evolve", 1, 1)
        self.taken += 1
        if str(self.taken) == os.environ.get("LEAKY_STOP"):
            raise StoppedEarly("stopped by the test")
        return {"loss": float(loss.detach())}

    def state_dict(self) -> dict[str, Any]:
        return {"taken": self.taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.taken = state["taken"]

    def best_weights(self) -> dict[str, torch.Tensor]:
        return {name: value.detach() for name, value in self.network.state_dict().items()}

    def owners(self) -> dict[str, int]:
        return {"experience": sum(array.nbytes for array in self.experience)}


class Regressing(Experiment):
    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def evaluate(self, split: str) -> Evaluation:
        return Evaluation({"split": split}, "", {})


class Leaky(Algorithm):
    name = "leaky"
    config = LeakyConfig

    @contextmanager
    def open(self, config: Config, services: Services) -> Iterator[Experiment]:
        assert isinstance(config.alg, LeakyConfig)
        torch.set_num_threads(1)
        yield Regressing(Regression(config.alg, services))


def main(kind: str, root: Path, *more: str) -> None:
    registry.BUILT_IN["leaky"] = f"{__name__}:Leaky"
    quiet = Console(file=io.StringIO())
    if kind == "resume":
        resume_run("leaky", [f"run.root={root}"], quiet)
        return
    words = ["alg=leaky", "env=gym", f"alg.leak={kind}", f"run.root={root}", "run.name=leaky", *more]
    start_run(words, quiet)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
