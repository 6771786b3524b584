"""What does a mechanism gain? Runs with and without it, on the same seeds, in the same CPU time.

    ./run bench ablation erl --arm "no_direct alg.direct_steps=0" --seeds 12 --out erl.jsonl

Suites: erl (planted markets; the seed chooses market and actions, and makes the market), erl_control, pwm and pwm_legs
(control tasks that no other benchmark reports), and pwm_ant (a task that one reports, on other seeds). The base is the
preset as it is; each arm adds its overrides. `--out` keeps finished runs, so that an interrupted
ablation goes on. Scores are shares of the oracle's excess over equal weight on the holdout, or returns over random in units
of what the base gains on that task. The table has paired differences, base minus arm, with 95 % t intervals: above zero, the
mechanism gains.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from learning import MARKET
from side_by_side import run_all

FIRST_SEED = 301
CELLS = list(product(("reversal", "momentum"), ("orders", "weights")))
TASKS = {
    "erl_control": ("Hopper-v5", "Reacher-v5", "InvertedDoublePendulum-v5"),
    "pwm": ("dflex_cartpole", "Hopper-v5"),
    "pwm_legs": ("Ant-v5", "Hopper-v5"),
    "pwm_ant": ("dflex_ant",),
}
PWM_PRESETS = ("pwm_small", "pwm_small_flow")


def erl_market(overrides: list[str], seed: int, budget: float) -> dict[str, Any]:
    """Train in this process until the budget is spent; judging is not part of it."""
    import torch

    from eigen2.algorithms.erl.experiment import make_task, make_trainer
    from eigen2.algorithms.erl.market import MarketTask
    from eigen2.algorithms.erl.policy import market_policy
    from eigen2.config import load_config
    from eigen2.envs.trading import TradingCore
    from eigen2.evaluation.backtest import run_policy
    from eigen2.evaluation.oracle import oracle_benchmark
    from eigen2.evaluation.policies import equal_weight_benchmark

    market, actions = CELLS[seed % len(CELLS)]
    named = [f"env.data=planted_{market}", f"env.actions={actions}", f"seed={seed}", "alg.generations=1000"]
    config = load_config([*named, *MARKET, *overrides])
    torch.set_num_threads(1)
    task = make_task(config)
    assert isinstance(task, MarketTask)
    data, env, trainer = task.market, task.env, make_trainer(config, task)
    spent = 0.0
    while spent < budget:
        began = time.process_time()
        trainer.step()
        spent += time.process_time() - began
    champion = market_policy(task, trainer.champion.actor)
    equal, oracle = equal_weight_benchmark(data, env, data.holdout), oracle_benchmark(data, env, seed)
    earned = [
        float(run_policy(TradingCore(data, rules, 1), policy, data.holdout).log_returns.sum())
        for rules, policy in ((env, champion), (equal.config, equal.policy), (oracle.config, oracle.policy))
    ]
    share = (earned[0] - earned[1]) / (earned[2] - earned[1])
    return {"cell": f"{market} {actions}", "score": share, "steps": trainer.generation}


def control(suite: str, overrides: list[str], seed: int, budget: float) -> dict[str, Any]:
    from eigen2.envs.control.catalogue import control_task

    config = _control_config(suite, overrides, seed)
    task = control_task(config.env)
    return _judged(suite, config, task, seed, *_trained(config, task, seed, budget))


def _control_config(suite: str, overrides: list[str], seed: int) -> Any:
    import torch

    from eigen2.config import load_config

    torch.set_num_threads(1)
    name = TASKS[suite][seed % len(TASKS[suite])]
    env = [f"env={name}"] if name.startswith("dflex") else ["env=gym", f"env.id={name}"]
    preset = [f"alg={PWM_PRESETS[seed // 2 % 2]}"] if suite.startswith("pwm") else []
    return load_config([*preset, *env, f"seed={seed}", *overrides])


def _judged(suite: str, config: Any, task: Any, seed: int, policy: Any, steps: int) -> dict[str, Any]:
    from eigen2.envs.control.reference_policies import at_random
    from eigen2.envs.control.rollout import play_episodes

    score = play_episodes(task, policy, 20, seed, "benchmark").mean
    random = play_episodes(task, at_random(task, seed=seed), 20, seed, "benchmark").mean
    name = TASKS[suite][seed % len(TASKS[suite])]
    cell = name if suite == "erl_control" else f"{name} {config.presets['alg']}"
    return {"cell": cell, "score": score - random, "steps": steps}


def _trained(config: Any, task: Any, seed: int, budget: float) -> tuple[Any, int]:
    """A policy after `budget` CPU seconds, and the steps it took."""
    from eigen2.algorithms.erl.config import ERLConfig

    if not isinstance(config.alg, ERLConfig):
        pwm = _fitted(config, task, seed, budget)
        return pwm.policy(), pwm.iteration
    import torch

    from eigen2.algorithms.erl.control import ControlTask, control_policy
    from eigen2.algorithms.erl.trainer import ERLTrainer
    from eigen2.replay import Replay

    began = time.process_time()
    mine = ControlTask(task, config.alg, seed, torch.device("cpu"))
    erl = ERLTrainer(mine, config.alg, Replay(mine.schema(), config.replay.capacity, seed), seed)
    while time.process_time() - began < budget:
        erl.step()
    return control_policy(mine, erl.champion.actor), erl.generation


def _fitted(config: Any, task: Any, seed: int, budget: float) -> Any:
    """PWM's trainer after as many iterations as fit into the budget, to which its schedule is fitted as it goes."""
    from eigen2.algorithms.pwm.trainer import PWMTrainer

    began = time.process_time()
    trainer = PWMTrainer(config.alg, task, seed, config.replay.capacity)
    trainer.step()
    opening, fitted = time.process_time() - began, 0.0
    while not trainer.done:
        trainer.step()
        spent = time.process_time() - began
        if spent - fitted > budget / 24 and not trainer.done:
            fitted = spent
            each = (spent - opening) / (trainer.iteration - 1)
            iterations = trainer.iteration + max(1, int((budget - spent) / each))
            trainer.config = trainer.config.model_copy(update={"iterations": iterations})
    return trainer


def run_of(suite: str, words: str, seed: int, budget: float) -> dict[str, Any]:
    """The record of one run."""
    given = words.split(), seed, budget
    found = erl_market(*given) if suite == "erl" else control(suite, *given)
    return {"suite": suite, "words": words, "seed": seed, "budget": budget, **found}


def finished(path: Path | None) -> list[dict[str, Any]]:
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", nargs="?", default="erl", choices=["erl", *TASKS])
    parser.add_argument("--base", default="", help="overrides of all runs")
    parser.add_argument("--arm", action="append", default=[], help="NAME OVERRIDE ...")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--budget", type=float, default=30.0, help="CPU seconds of training")
    parser.add_argument("--workers", type=int, default=2, help="runs side by side")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument(
        "--one", nargs=4, metavar=("SUITE", "WORDS", "SEED", "BUDGET"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.one:
        suite, words, seed, budget = options.one
        print(json.dumps(run_of(suite, words, int(seed), float(budget))))
        return
    named = (arm.partition(" ") for arm in options.arm)
    arms = {"base": options.base} | {name: f"{options.base} {words}".strip() for name, _, words in named}
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    wanted = [(options.suite, words, seed, options.budget) for seed in seeds for words in arms.values()]
    done = finished(options.out)
    there = {(run["suite"], run["words"], run["seed"], run["budget"]) for run in done}
    jobs = [job for job in wanted if job not in there]
    for start in range(0, len(jobs), 2 * options.workers):
        some = jobs[start : start + 2 * options.workers]
        found = run_all(__file__, some, options.workers)
        done += found
        if options.out is not None:
            with open(options.out, "a", encoding="utf-8") as log:
                log.writelines(json.dumps(run) + "\n" for run in found)
        print(f"{start + len(some)} of {len(jobs)} runs", file=sys.stderr, flush=True)
    scores = {(run["words"], run["seed"]): run for run in done if run["suite"] == options.suite}
    print(json.dumps(summarise(arms, seeds, scores)))


def summarise(
    arms: dict[str, str], seeds: Sequence[int], runs: dict[tuple[str, int], dict[str, Any]]
) -> dict[str, Any]:
    """Print the table; return the flat JSON object."""
    by_cell: dict[str, list[float]] = defaultdict(list)
    bases = {seed: runs[arms["base"], seed] for seed in seeds}
    for run in bases.values():
        by_cell[str(run["cell"])].append(run["score"])
    market = bases[seeds[0]]["suite"] == "erl"
    unit = {cell: 1.0 if market else abs(float(np.mean(scores))) for cell, scores in by_cell.items()}
    flat: dict[str, Any] = {"seeds": len(seeds)}
    print(f"{'arm':24} {'score':>7} {'steps':>7} {'base - arm':>11}  95 % interval")
    for name, words in arms.items():
        # The cell of the base: an arm may choose another preset.
        scale = np.array([unit[str(bases[seed]["cell"])] for seed in seeds])
        mine = np.array([runs[words, seed]["score"] for seed in seeds]) / scale
        base = np.array([bases[seed]["score"] for seed in seeds]) / scale
        steps = float(np.mean([runs[words, seed]["steps"] for seed in seeds]))
        gain = base - mine
        error = float(gain.std(ddof=1)) / len(gain) ** 0.5
        half = float(stats.t.ppf(0.975, len(gain) - 1)) * error
        mean = float(gain.mean())
        interval = "" if name == "base" else f"{mean:+11.3f}  [{mean - half:+.3f}, {mean + half:+.3f}]"
        print(f"{name:24} {mine.mean():7.3f} {steps:7.0f} {interval}")
        flat |= {f"{name}_score": float(mine.mean()), f"{name}_gain": mean, f"{name}_half_interval": half}
    return flat


if __name__ == "__main__":
    main()
