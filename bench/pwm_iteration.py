"""Core-seconds of one PWM iteration on Ant, by phase, single-threaded.

    ./run bench pwm_iteration [--preset pwm_5M pwm_small pwm_tiny_flow] [--iterations 3]

The original's shape: 128 environments, horizon 16, batch 256, 8 model + 1 actor + 32 critic updates. The first,
warm-up iteration is not counted; model bootstrapping is switched off.
"""

import argparse
import json
import time
from collections.abc import Callable

import torch

from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.trainer import PWMTrainer
from eigen2.config import load_config
from eigen2.envs.control.catalogue import make_task

TARGET = 3.5
PLAIN = 6.4


def make_trainer(preset: str) -> PWMTrainer:
    alg = load_config([f"alg={preset}", "env=dflex_ant", "alg.model.bootstrap_updates=0"]).alg
    assert isinstance(alg, PWMConfig)
    return PWMTrainer(alg, make_task("dflex_ant"), seed=0, capacity=100_000)


def core_seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def measure(preset: str, iterations: int) -> dict[str, float]:
    """Core-seconds of every phase and of their total."""
    trainer = make_trainer(preset)
    trainer.step()
    phases: dict[str, list[float]] = {"collect": [], "model": [], "policy": []}
    for _ in range(iterations):
        phases["collect"].append(core_seconds(trainer.collect))
        phases["model"].append(core_seconds(trainer.train_model))
        phases["policy"].append(core_seconds(trainer.train_policy))
        trainer.iteration += 1
    # The least of several repeats: on a shared machine everything else only adds to it.
    least = {name: min(values) for name, values in phases.items()}
    return least | {"total": sum(least.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--preset", nargs="+", default=["pwm_5M"])
    parser.add_argument("--iterations", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    facts: dict[str, float] = {}
    print("core-seconds per iteration on dflex_ant")
    for preset in arguments.preset:
        seconds = measure(preset, arguments.iterations)
        row = "  ".join(f"{name} {value:.3f}" for name, value in seconds.items())
        print(f"  {preset:16s} {row}")
        facts |= {f"{preset}_{name}_core_seconds": round(value, 4) for name, value in seconds.items()}
    print(f"  pwm_5M: target {TARGET}, a plain implementation {PLAIN}")
    print(json.dumps(facts | {"target": TARGET}))


if __name__ == "__main__":
    main()
