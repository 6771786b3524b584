"""ERL on Gymnasium environments, and what evolution adds to gradient alone.

    ./run bench erl_gym [--quick] [--steps 100000]

Pendulum-v1: 5 seeds (--quick: 1) with the default settings of `env=gym`. Swimmer-v5: 3 seeds (--quick: 1), ERL beside
its own DDPG-only setting: no variation, two agents that both learn by gradient, at least as many environment steps and
three times the updates per generation of each learner. The preset `erl_ddpg` is shown on both, with at least as many
environment steps.
Every environment step counts: evaluation, exploration and validation. Scores are mean returns of the final champion on 20
fresh episodes. One thread; CPU seconds of this process.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from statistics import fmean

import torch

from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.control import ControlTask, control_policy
from eigen2.algorithms.erl.trainer import ERLTrainer
from eigen2.config import load_config
from eigen2.envs.config import GymConfig
from eigen2.envs.control.catalogue import control_task
from eigen2.evaluation.control import evaluate_control
from eigen2.replay import Replay

PENDULUM_GOAL = -200.0
ALL_LEARNERS = ("alg=erl_ddpg",)
DDPG_ONLY = (
    "alg.variation=none", "alg.population=2", "alg.learners=2", "alg.elites=1", "alg.gradient_steps=1500",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    champion: float
    """Mean return of the final champion on 20 fresh episodes."""
    random: float
    env_steps: int
    updates: int
    """Gradient updates of each learner."""
    cpu_seconds: float
    """Training alone, without the final evaluation."""


def train(overrides: tuple[str, ...], seed: int, env_steps: int | None = None) -> Result:
    """A run with the default settings of env=gym; ends after `env_steps` if given, else after its generations."""
    config = load_config(["env=gym", f"seed={seed}", *overrides])
    assert isinstance(config.env, GymConfig)
    assert isinstance(config.alg, ERLConfig)
    began = time.process_time()
    env = control_task(config.env)
    task = ControlTask(env, config.alg, seed, torch.device("cpu"))
    trainer = ERLTrainer(task, config.alg, Replay(task.schema(), config.replay.capacity, seed), seed)
    while trainer.env_steps < env_steps if env_steps else not trainer.done:
        trainer.step()
    seconds = time.process_time() - began
    final = evaluate_control(env, control_policy(task, trainer.champion.actor), seed=seed).facts
    env.close()
    assert trainer.learners is not None
    return Result(
        final["mean_return"], final["random_return"], trainer.env_steps, trainer.learners.updates, seconds
    )


def show(what: str, seed: int, result: Result) -> None:
    print(
        f"{what:<20} {seed:>4} {result.champion:>9.1f} {result.random:>9.1f} {result.env_steps:>10} "
        f"{result.updates:>8} {result.cpu_seconds:>6.0f}",
        flush=True,
    )


def mean(results: list[Result]) -> float:
    return fmean(result.champion for result in results)


def spread(name: str, results: list[Result]) -> str:
    scores = [result.champion for result in results]
    return f"{name} {fmean(scores):.0f} ({min(scores):.0f} to {max(scores):.0f})"


def pendulum(runs: int) -> dict[str, float]:
    erl, ddpg = [], []
    for seed in range(runs):
        erl.append(train(("env.id=Pendulum-v1",), seed))
        show("Pendulum-v1 ERL", seed, erl[-1])
        ddpg.append(train(("env.id=Pendulum-v1", *ALL_LEARNERS), seed, erl[-1].env_steps))
        show("Pendulum-v1 erl_ddpg", seed, ddpg[-1])
    solved = sum(result.champion >= PENDULUM_GOAL for result in erl)
    print(f"Pendulum-v1: {spread('ERL', erl)}, {spread('erl_ddpg', ddpg)}")
    print(f"Pendulum-v1: ERL at {PENDULUM_GOAL:.0f} or better in {solved} of {runs} runs")
    return {
        "pendulum_runs": runs,
        "pendulum_solved": solved,
        "pendulum_mean_return": mean(erl),
        "pendulum_erl_ddpg_mean_return": mean(ddpg),
        "pendulum_cpu_seconds_max": max(result.cpu_seconds for result in erl),
    }


def swimmer(runs: int, env_steps: int) -> dict[str, float]:
    erl, every, alone = [], [], []
    for seed in range(runs):
        erl.append(train(("env.id=Swimmer-v5",), seed, env_steps))
        show("Swimmer-v5 ERL", seed, erl[-1])
        every.append(train(("env.id=Swimmer-v5", *ALL_LEARNERS), seed, erl[-1].env_steps))
        show("Swimmer-v5 erl_ddpg", seed, every[-1])
        alone.append(train(("env.id=Swimmer-v5", *DDPG_ONLY), seed, erl[-1].env_steps))
        show("Swimmer-v5 DDPG only", seed, alone[-1])
        if alone[-1].updates < erl[-1].updates:
            raise AssertionError(f"DDPG only had {alone[-1].updates} updates, ERL {erl[-1].updates}: unfair")
    won = sum(ours.champion > other.champion for ours, other in zip(erl, alone, strict=True))
    print(f"Swimmer-v5: {spread('ERL', erl)}, {spread('erl_ddpg', every)}, {spread('DDPG only', alone)}")
    print(f"Swimmer-v5: ERL beats DDPG only on {won} of {runs} seeds")
    return {
        "swimmer_runs": runs,
        "swimmer_won": won,
        "swimmer_erl_mean_return": mean(erl),
        "swimmer_erl_ddpg_mean_return": mean(every),
        "swimmer_ddpg_only_mean_return": mean(alone),
        "swimmer_env_steps": erl[0].env_steps,
        "swimmer_cpu_seconds_max": max(result.cpu_seconds for result in (*erl, *alone)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one seed each")
    parser.add_argument("--only", choices=("pendulum", "swimmer"), help="one environment alone")
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps of a Swimmer run")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{'run':<20} {'seed':>4} {'champion':>9} {'random':>9} {'env steps':>10} {'updates':>8} {'CPU s':>6}"
    )
    summary: dict[str, float] = {}
    if arguments.only != "swimmer":
        summary |= pendulum(1 if arguments.quick else 5)
    if arguments.only != "pendulum":
        summary |= swimmer(1 if arguments.quick else 3, arguments.steps)
    print(json.dumps(summary))
    reached = summary.get("pendulum_solved") == summary.get("pendulum_runs")
    return 0 if reached and summary.get("swimmer_won") == summary.get("swimmer_runs") else 1


if __name__ == "__main__":
    sys.exit(main())
