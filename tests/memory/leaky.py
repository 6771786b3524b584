"""A small real algorithm that leaks or hangs on demand: `python leaky.py KIND ROOT STEPS` trains it through the whole
harness.

It runs in a process of its own: memory that another leak has freed would hide the growth. LEAKY_LIMIT is a limit of
memory in bytes, against which only `experience` counts: what the guard sees is then the same on every machine.
LEAKY_ROOM is what the process may have beside what it has when it begins, by a real `ulimit -v`.
"""

import io
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import psutil
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
    WhatIf,
)
from eigen2.config import Config
from eigen2.errors import StoppedEarly
from eigen2.harness import watchdog
from eigen2.harness.training import resume_run, start_run
from eigen2.memory import guard
from eigen2.memory.limits import Limit

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
        self.dropped = 0
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
        if leak in ("filling", "step") or leak.startswith("hang"):
            self.experience += [np.ones(NUMBERS) for _ in range(int(os.environ.get("LEAKY_ARRAYS", "1")))]
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
        if leak == "step" and self.taken == 5:
            while True:  # Until the step is dropped.
                self.experience.append(np.ones(NUMBERS))
        if leak.startswith("hang") and self.taken == 2:
            self.hang()
        if leak == "cache":
            self.cache[self.taken] = {"weights": np.ones(NUMBERS)}
        if leak == "objects":
            self.cache[self.taken] = [[i] for i in range(40_000)]
        report("evolve", 1, 1)
        self.taken += 1
        if str(self.taken) == os.environ.get("LEAKY_STOP"):
            raise StoppedEarly("stopped by the test")
        return {"loss": float(loss.detach())}

    def hang(self) -> None:
        """Until the watchdog has written down where. Where it is to end the run it becomes impatient only now: on a slow
        machine another phase may take as long."""
        if ABORT:
            watchdogs[0].seconds = watchdogs[0]._patience = 0.3
        if self.config.leak == "hang_sleep":
            while not reported():
                time.sleep(600.0 if ABORT else 0.01)
        if self.config.leak == "hang_lock":
            lock = threading.Lock()
            lock.acquire()
            while not reported():
                lock.acquire(timeout=-1 if ABORT else 0.01)
        while not reported():
            pass

    def drop_caches(self) -> None:
        self.dropped += 1

    def state_dict(self) -> dict[str, Any]:
        return {"taken": self.taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.taken = state["taken"]

    def best_weights(self) -> dict[str, torch.Tensor]:
        return {name: value.detach() for name, value in self.network.state_dict().items()}

    def owners(self) -> dict[str, int]:
        return {"experience": sum(array.nbytes for array in self.experience)}


ABORT = "run.stall_abort=true" in sys.argv
watchdogs: list[watchdog.Watchdog] = []
look = watchdog.Watchdog.look


def noted(self: watchdog.Watchdog) -> float:
    watchdogs[:] = [self]
    return look(self)


watchdog.Watchdog.look = noted  # type: ignore[method-assign]


def reported() -> bool:
    """Never, where the watchdog is to end the run."""
    events = Path(sys.argv[2]) / "leaky" / "events.jsonl"
    return not ABORT and b'"stall","message":"No progress in the evolve phase' in events.read_bytes()


class Regressing(Experiment):
    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def evaluate(self, split: str, what_if: WhatIf | None = None) -> Evaluation:
        return Evaluation({"split": split}, "", {})


class Leaky(Algorithm):
    name = "leaky"
    config = LeakyConfig

    @contextmanager
    def open(self, config: Config, services: Services) -> Iterator[Experiment]:
        assert isinstance(config.alg, LeakyConfig)
        torch.set_num_threads(1)
        trainer = Regression(config.alg, services)
        if "LEAKY_LIMIT" in os.environ:
            whole = Limit(int(os.environ["LEAKY_LIMIT"]), "the test")

            def use() -> list[guard.Use]:
                used = 8 * NUMBERS * len(trainer.experience)
                return [guard.Use(used, max(0, whole.bytes - used), whole)]

            guard._Limits.__call__ = lambda self: use()  # type: ignore[method-assign]
        yield Regressing(trainer)


def main(kind: str, root: Path, *more: str) -> None:
    registry.BUILT_IN["leaky"] = f"{__name__}:Leaky"
    quiet = Console(file=sys.stdout) if "LEAKY_SHOW" in os.environ else Console(file=io.StringIO())
    if "LEAKY_ROOM" in os.environ:
        room = psutil.Process().memory_info().vms + int(os.environ["LEAKY_ROOM"])
        resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
    if kind == "resume":
        resume_run("leaky", [f"run.root={root}"], quiet)
        return
    words = ["alg=leaky", "env=gym", f"alg.leak={kind}", f"run.root={root}", "run.name=leaky", *more]
    start_run(words, quiet)


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
    except StoppedEarly as error:
        if "LEAKY_STOP" in os.environ:
            raise
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
