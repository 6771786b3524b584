"""PWM beside Stable-Baselines3 on the same simulator and the same CPU time.

    ./run bench pwm [--quick] [--picture pwm_curves.png]

dflex_hopper 6 CPU minutes x 3 seeds, dflex_ant 10 CPU minutes x 2 seeds, and 3 CPU minutes x 2 seeds of dflex_cheetah,
HalfCheetah-v5 and Walker2d-v5, on which no setting was ever chosen; --quick: one seed each. One thread per run, two runs
side by side. Scores are mean returns of 20 whole episodes at the *end* of the run. MuJoCo physics: scores are not
comparable with dflex's.
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from eigen2.envs.control.reference_policies import at_random, stand_still
from eigen2.envs.control.rollout import play_episodes
from pwm_contestants import task_named

LEARNERS = ("pwm_mlp", "pwm_flow", "sac", "td3")
TASKS = {
    "dflex_hopper": (360.0, 3),
    "dflex_ant": (600.0, 2),
    "dflex_cheetah": (180.0, 2),
    "HalfCheetah-v5": (180.0, 2),
    "Walker2d-v5": (180.0, 2),
}
"""CPU seconds and seeds."""
STANDING = {"dflex_hopper": 1300.0, "dflex_ant": 1366.0}
"""What a robot that balances without moving earns, where doing nothing at all may fall over and earn less."""
KEPT = 0.85
"""Share of its best evaluation that a run must still have at its end."""


def contest(job: tuple[str, str, int, float]) -> dict[str, Any]:
    """One run as a process of its own; every evaluation it reports is passed on as it comes."""
    learner, task, seed, budget = job
    script = Path(__file__).with_name("pwm_contestants.py")
    command = [sys.executable, str(script), "--learner", learner, "--task", task, "--seed", str(seed)]
    with subprocess.Popen(
        [*command, "--budget", str(budget)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stderr:
            print(f"{task} {learner} seed {seed}: {line}", end="", file=sys.stderr, flush=True)
        output = process.stdout.read()
    if process.returncode:
        raise RuntimeError(f"{task} {learner} seed {seed} ended with exit code {process.returncode}")
    return dict(json.loads(output.splitlines()[-1]))


def summary(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Final and best over the curve, how much of its best the worst seed kept to the end, and, of PWM, what the networks
    of its own best evaluation earn (which is what `eigen2 evaluate` plays)."""
    final = np.array([run["curve"][-1][1] for run in runs])
    best = np.array([max(score for _, score in run["curve"]) for run in runs])
    champions = [run["champion"] for run in runs if run["champion"] is not None]
    return {
        "final": float(final.mean()),
        "lowest": float(final.min()),
        "best": float(best.mean()),
        "kept": float((final / best).min()),
        "cpu_seconds": float(np.mean([run["cpu_seconds"] for run in runs])),
        **({"champion": float(np.mean(champions))} if champions else {}),
    }


def bars(rows: dict[str, dict[str, float]], standing: float) -> dict[str, bool]:
    """For each PWM: at least the better peer, above standing, and within 15 % of its own best at the end."""
    peers = [row["final"] for learner, row in rows.items() if not learner.startswith("pwm")]
    met = {}
    for learner in (name for name in rows if name.startswith("pwm")):
        row = rows[learner]
        if peers:
            met[f"{learner}_beats_peers"] = row["final"] >= max(peers)
        met[f"{learner}_above_standing"] = row["final"] > standing
        met[f"{learner}_kept_its_best"] = row["kept"] >= KEPT
    return met


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    """Learning curves: the mean over seeds as a line, from the least to the greatest as a band."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    tasks = sorted({run["task"] for run in runs})
    figure, axes = plt.subplots(1, len(tasks), figsize=(7 * len(tasks), 4.5), squeeze=False)
    for axis, task in zip(axes[0], tasks, strict=True):
        for learner in LEARNERS:
            curves = [np.array(r["curve"]) for r in runs if r["task"] == task and r["learner"] == learner]
            if not curves:
                continue
            seconds = np.linspace(max(c[0, 0] for c in curves), min(c[-1, 0] for c in curves), 100)
            scores = np.stack([np.interp(seconds, c[:, 0], c[:, 1]) for c in curves])
            axis.plot(seconds, scores.mean(0), label=f"{learner} (seeds: {len(curves)})")
            axis.fill_between(seconds, scores.min(0), scores.max(0), alpha=0.2)
        if task in STANDING:
            axis.axhline(STANDING[task], color="grey", linestyle="--", label="balancing without moving")
        axis.set(
            title=f"{task} (MuJoCo physics)",
            xlabel="CPU seconds, one thread",
            ylabel="mean return, 20 episodes",
        )
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="PWM beside SAC and TD3 at the same CPU time.")
    parser.add_argument("--quick", action="store_true", help="one seed per task")
    parser.add_argument("--picture", type=Path, default=Path("pwm_curves.png"))
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=list(LEARNERS))
    parser.add_argument(
        "--budget-share", type=float, default=1.0, help="shorten every run, to try the script out"
    )
    arguments = parser.parse_args()
    jobs = [
        (learner, task, seed, TASKS[task][0] * arguments.budget_share)
        for task in arguments.tasks
        for seed, learner in product(range(1 if arguments.quick else TASKS[task][1]), arguments.learners)
    ]
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(contest, jobs))
    draw(runs, arguments.picture)

    facts: dict[str, Any] = {"picture": str(arguments.picture)}
    for name in arguments.tasks:
        task = task_named(name)
        still, random = (
            play_episodes(task, p, 20, seed=0).mean for p in (stand_still(task), at_random(task, seed=0))
        )
        task.close()
        standing = STANDING.get(name, still)
        balancing = f", balancing about {standing:.0f}" if name in STANDING else ""
        print(f"\n{name}: doing nothing {still:.0f}, random {random:.0f}{balancing}")
        print(
            f"{'learner':10s} {'final':>8s} {'lowest':>8s} {'best':>8s} {'kept':>6s} {'CPU s':>7s} {'champion':>8s}"
        )
        facts |= {f"{name}_stand_still": round(still, 1), f"{name}_random": round(random, 1)}
        rows = {
            learner: summary([run for run in runs if run["task"] == name and run["learner"] == learner])
            for learner in arguments.learners
        }
        for learner, row in rows.items():
            print(
                f"{learner:10s} {row['final']:8.0f} {row['lowest']:8.0f} {row['best']:8.0f} {row['kept']:6.2f} "
                f"{row['cpu_seconds']:7.0f} {format(row['champion'], '.0f') if 'champion' in row else '-':>8s}"
            )
            facts |= {f"{name}_{learner}_{key}": round(value, 3) for key, value in row.items()}
        for bar, met in bars(rows, standing).items():
            print(f"  {'met   ' if met else 'MISSED'} {bar.replace('_', ' ')}")
            facts[f"{name}_{bar}"] = met
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
