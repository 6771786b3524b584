"""Memory of a long PWM run: 5,000 iterations through the whole harness, for mlp and for flow with Heun and four substeps.

The networks are tiny, so that anything kept from each iteration (a graph, a batch, a log) shows against them: a single
retained graph of the original took 2 to 15 MB per iteration.
"""

import argparse
import gc
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from eigen2.harness.journal import read_log
from eigen2.harness.training import start_run
from eigen2.memory.slopes import slope

TINY = (
    "env=dflex_hopper", "alg.environments=4", "alg.steps=2", "alg.random_steps=8", "alg.horizon=3",
    "alg.model.latent=16", "alg.model.encoder_units=[16]", "alg.model.units=[16]", "alg.model.updates=1",
    "alg.model.batch=8", "alg.actor.units=[16]", "alg.actor.updates=1", "alg.actor.batch=8", "alg.critic.units=[16]",
    "alg.critic.epochs=1", "alg.critic.minibatches=1", "alg.evaluate_episodes=1", "alg.evaluate_every=500",
    "checkpoint.every=500", "replay.capacity=2000",
)  # fmt: skip
VARIANTS = {
    "mlp": ("alg=pwm_tiny",),
    "flow_heun4": ("alg=pwm_tiny_flow", "alg.model.flow.integrator=heun", "alg.model.flow.substeps=4"),
}
EVERY = 500


class Watcher(Console):
    """Counts the tensors that are alive, every 500 lines of progress."""

    def __init__(self) -> None:
        super().__init__(file=open(os.devnull, "w"))  # noqa: SIM115
        self.lines = 0
        self.tensors: list[int] = []

    def print(self, *objects: Any, **options: Any) -> None:
        self.lines += 1
        if self.lines % EVERY == 0:
            gc.collect()
            self.tensors.append(sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects()))


def measure(variant: str, iterations: int, warm_up: int) -> dict[str, float]:
    """RSS over the iterations after `warm_up`, its slope, and the tensors alive (the least of three counts: a checkpoint that
    is being written holds some)."""
    watcher = Watcher()
    with tempfile.TemporaryDirectory() as root:
        overrides = [*VARIANTS[variant], *TINY, f"alg.iterations={iterations}", f"run.root={root}"]
        run = Path(start_run(overrides, watcher)["run"])
        rss = np.array([record["rss_bytes"] for record in read_log(run / "memory.jsonl")][warm_up:], float)
    growth = slope([(np.arange(len(rss), dtype=float), rss)])
    assert growth is not None
    settled = watcher.tensors[warm_up // EVERY :]
    return {
        "iterations": iterations,
        "rss_mb_after_warm_up": rss[0] / 1e6,
        "rss_mb_at_end": rss[-1] / 1e6,
        "bytes_per_iteration": growth.value,
        "tensors_after_warm_up": min(settled[:3]),
        "tensors_at_end": min(settled[-3:]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Is memory flat over a long PWM run?")
    parser.add_argument("--iterations", type=int, default=5000)
    arguments = parser.parse_args()
    facts: dict[str, float] = {}
    print(f"{'dynamics':12} {'MB warm':>9} {'MB end':>9} {'B/iteration':>12} {'tensors':>16}")
    for variant in VARIANTS:
        found = measure(variant, arguments.iterations, arguments.iterations // 5)
        tensors = f"{found['tensors_after_warm_up']:.0f} -> {found['tensors_at_end']:.0f}"
        print(
            f"{variant:12} {found['rss_mb_after_warm_up']:9.1f} {found['rss_mb_at_end']:9.1f} "
            f"{found['bytes_per_iteration']:12.0f} {tensors:>16}"
        )
        facts |= {f"{variant}_{key}": round(value, 2) for key, value in found.items()}
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
