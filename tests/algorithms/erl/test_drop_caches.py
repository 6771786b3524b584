"""A trainer that has dropped its caches computes what it would have computed."""

from pathlib import Path
from typing import Any

import pytest
from command_lab import ORDERS, PENDULUM, WEIGHTS, WORLD_MODEL

from eigen2.algorithms import registry
from eigen2.config import load_config
from eigen2.harness.host import Host
from eigen2.store.state import fingerprint


def trained(words: tuple[str, ...], root: Path, dropping: bool) -> str:
    config = load_config([*words, f"run.root={root}"])
    found: list[Any] = []

    def progress(phase: str, done: int, total: int) -> None:
        if dropping:
            for trainer in found:
                trainer.drop_caches()

    algorithm, host = registry.algorithm(config.alg.kind), Host(config, progress=progress)
    with algorithm.open(config, host.services) as experiment:
        found.append(experiment.trainer)
        while not experiment.trainer.done:
            experiment.trainer.step()
        return fingerprint(experiment.trainer.state_dict())


@pytest.mark.parametrize(
    "words",
    [(*ORDERS, "alg.population=7"), (*WEIGHTS, "env.synthetic.symbols=5"), PENDULUM, WORLD_MODEL],
    ids=["orders", "weights", "pendulum", "world model"],
)
def test_dropping_caches_at_every_chance_changes_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert trained(words, tmp_path, dropping=True) == trained(words, tmp_path, dropping=False)
