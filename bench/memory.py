"""Memory: what looking at it costs, and how flat it is over a long run.

    ./run bench memory                    all tables
    ./run bench memory --table overhead   one of them

Every run is a process of its own. Overhead is the CPU time that the profiler says it took, over the time of the whole
command and over the CPU time of the training process.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

TINY_MARKET = (
    "env.data=random_walk", "env.synthetic.days=400", "env.synthetic.symbols=4", "env.window=8",
    "env.trading_days=20", "env.settlement_days=5", "env.max_holding_days=5", "env.validation_days=60",
    "env.holdout_days=60", "env.embargo_days=5", "alg.direct_steps=0", "alg.population=4", "alg.windows=2",
    "alg.validation_windows=2", "alg.learners=1", "alg.elites=1", "alg.gradient_steps=2", "alg.batch=16",
    "alg.learning_starts=10", "alg.hidden=8", "replay.capacity=2000",
)  # fmt: skip
TINY_MODEL = (
    "alg=pwm_tiny", "env=dflex_hopper", "alg.environments=4", "alg.steps=2", "alg.random_steps=8", "alg.horizon=3",
    "alg.model.latent=16", "alg.model.encoder_units=[16]", "alg.model.units=[16]", "alg.model.updates=1",
    "alg.model.batch=8", "alg.actor.units=[16]", "alg.actor.updates=1", "alg.actor.batch=8", "alg.critic.units=[16]",
    "alg.critic.epochs=1", "alg.critic.minibatches=1", "alg.evaluate_episodes=1", "alg.evaluate_every=500",
    "checkpoint.every=500", "replay.capacity=2000",
)  # fmt: skip
OVERHEAD = {
    "erl sp20": ("alg.generations=10",),
    "erl tiny": (*TINY_MARKET, "alg.generations=100"),
    "pwm tiny": (*TINY_MODEL, "alg.iterations=500"),
    "sb3 sac": ("alg=sb3_sac", "env=gym", "alg.env_steps=3000", "alg.steps_per_round=500"),
}
LONG = {
    "erl, 200 generations": (*TINY_MARKET, "alg.generations=200"),
    "pwm, 5,000 iterations": (*TINY_MODEL, "alg.iterations=5000"),
}


def trained(overrides: tuple[str, ...]) -> dict[str, Any]:
    """Train in a process of its own: what `eigen2 memory --json` says, and CPU seconds."""
    command = [sys.executable, "-m", "eigen2"]
    with tempfile.TemporaryDirectory() as root:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [*command, "train", *overrides, f"run.root={root}", "run.name=bench"],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        text = subprocess.run(
            [*command, "memory", str(Path(root, "bench")), "--json"], stdout=subprocess.PIPE, check=True
        ).stdout
        last = json.loads((Path(root, "bench", "memory.jsonl")).read_bytes().splitlines()[-1])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**json.loads(text), "cpu": cpu, "profiler": last["profiler_seconds"]}


def overhead() -> dict[str, float]:
    print(f"{'run':24} {'CPU s':>8} {'profiler s':>11} {'of time':>9} {'of CPU':>8}")
    facts = {}
    for name, overrides in OVERHEAD.items():
        found = trained(overrides)
        of_cpu = found["profiler"] / found["cpu"]
        print(
            f"{name:24} {found['cpu']:8.1f} {found['profiler']:11.3f} {100 * found['profiler_share']:8.2f}% {100 * of_cpu:7.2f}%"
        )
        facts[f"overhead_{name.replace(' ', '_')}"] = round(of_cpu, 5)
    return facts


def slopes() -> dict[str, float]:
    print(f"\n{'run':24} {'bytes per step':>15} {'95 % interval':>22}  verdict")
    facts = {}
    for name, overrides in LONG.items():
        found = trained(overrides)
        low, high = found["interval"]
        slope = found["slope_bytes_per_step"]
        print(f"{name:24} {slope:15.0f} {f'{low:.0f} to {high:.0f}':>22}  {found['verdict'].split(':')[0]}")
        facts[f"slope_{name.split(',')[0]}"] = round(slope, 1)
    return facts


TABLES: dict[str, Callable[[], dict[str, float]]] = {"overhead": overhead, "slopes": slopes}


def main() -> None:
    parser = argparse.ArgumentParser(description="What does looking at memory cost, and is it flat?")
    parser.add_argument("--table", choices=list(TABLES), action="append")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    facts: dict[str, float] = {}
    for name in arguments.table or TABLES:
        facts |= TABLES[name]()
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
