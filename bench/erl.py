"""What ERL costs at the original's shape: 669 columns (108 tradable), 504-day windows, 16 agents, 5 windows of 145 days.

evaluate    the population plays its training windows; the encoder reads all days of a window in one pass
window      the same network run window by window: one plain forward of a 504-day window per agent and day, as the
            original does; a sample, extrapolated (~) to all agents and days
gradient    one step of one learner (twin critics and actor) at batch 32

Every part runs in a process of its own on one thread. CPU seconds; peak RSS of the whole process.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from eigen2 import seeds
from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.ddpg import Learners
from eigen2.algorithms.erl.market import MarketTask
from eigen2.algorithms.erl.trainer import ERLTrainer
from eigen2.envs.config import TradingConfig
from eigen2.market.data import MarketData, Split
from eigen2.nets.market import project
from eigen2.nets.stacked import Params, linear, norm, take
from eigen2.replay import Replay

DAYS, WINDOW, SYMBOLS, TRADABLE, FEATURES = 3888, 504, 669, 108, 5
AGENTS, WINDOWS, EPISODE, BATCH, LAYERS = 16, 5, 145, 32, 8
SAMPLE = 6
"""Windows of the window-by-window sample."""
Figures = dict[str, float]


def seed_market() -> MarketData:
    """Random walks of the original's shape; features are noise of the right size, since only cost is measured."""
    rng = np.random.default_rng(0)
    close = 50.0 * np.exp(np.cumsum(rng.normal(0.0, 0.02, (DAYS, SYMBOLS)), axis=0))
    return MarketData(
        name="random",
        dates=np.datetime64("2008-01-01", "D") + np.arange(DAYS),
        symbols=tuple(f"S{i}" for i in range(SYMBOLS)),
        tradable=np.arange(TRADABLE),
        close=close,
        open=None,
        high=None,
        low=None,
        volume=None,
        mask=np.ones(close.shape, np.bool_),
        features=rng.standard_normal((DAYS, SYMBOLS, FEATURES), np.float32),
        feature_names=tuple(f"f{i}" for i in range(FEATURES)),
        train=Split("train", WINDOW - 1, DAYS - 600),
        validation=Split("validation", DAYS - 580, DAYS - 300),
        holdout=Split("holdout", DAYS - 280, DAYS),
        fingerprint="",
    )


def seed_task() -> MarketTask:
    """125 days of trading and 20 of settlement; convolutions that reach back 256 days (512 would exceed the window)."""
    env = TradingConfig(window=WINDOW, trading_days=125, settlement_days=20, position_fraction=0.1)
    alg = ERLConfig(
        population=AGENTS, windows=WINDOWS, learners=1, batch=BATCH, run_length=16,
        encoder_layers=LAYERS, gradient_steps=1, direct_steps=0, policy_delay=1, learning_starts=0, block=4,
    )  # fmt: skip
    return MarketTask(seed_market(), env, alg, torch.device("cpu"))


def cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def evaluate() -> Figures:
    """The evaluate phase of a generation, transitions into replay included."""
    task = seed_task()
    replay = Replay(task.schema(), 50_000, seed=0)
    trainer = ERLTrainer(task, task.alg, replay, seed=0)
    episodes = task.draw_episodes(WINDOWS, seeds.generator(0, "episodes", 0))
    seconds = cpu(lambda: trainer._evaluate(trainer.actors, episodes))
    assert len(replay) == AGENTS * WINDOWS * EPISODE
    return {"evaluate_cpu_s": seconds}


def plain_window(params: Params, window: Tensor) -> Tensor:
    """All layers on all days of one window `[day, symbol, channel]`, as any network is run -> `[1, symbol, hidden]`."""
    days, symbols, channels = window.shape
    h = linear(params, "encoder.in", window.reshape(1, -1, channels))
    for layer in range(LAYERS):
        a = F.silu(norm(params, f"encoder.{layer}.norm", h))
        past = F.pad(a, (0, 0, 2 ** (LAYERS - 1 - layer) * symbols, 0))[:, : days * symbols]
        now, before = params[f"encoder.{layer}.conv.w"].chunk(2, dim=1)
        h = torch.baddbmm(h + params[f"encoder.{layer}.conv.b"], a, now)
        h = torch.baddbmm(h, past, before)
    return h.view(1, days, symbols, -1)[:, -1]


@torch.no_grad()
def window() -> Figures:
    """Symbols in chunks that fit the cache, which makes the plain forward more than twice as fast."""
    task = seed_task()
    actor = take(task.init_actor(AGENTS, torch.Generator().manual_seed(0)), [0])
    days = np.arange(1000, 1000 + SAMPLE)
    together, lookup = task.project_days(actor, days)
    known = task.tensors.mask[:1]
    slowest_agreement = 0.0
    fastest = float("inf")
    for day in days:
        began = time.process_time()
        inputs = task.tensors.inputs[day - WINDOW + 1 : day + 1]
        chunks = [plain_window(actor, part) for part in torch.split(inputs, 32, dim=1)]
        alone = project(actor, torch.cat(chunks, dim=1).unsqueeze(1), known, task.tensors.tradable)
        fastest = min(fastest, time.process_time() - began)
        difference = float((alone[0, 0] - together[0, lookup[int(day)]]).abs().max())
        slowest_agreement = max(slowest_agreement, difference)
    assert slowest_agreement < 1e-5, slowest_agreement
    needed = cpu(lambda: [task.project_days(actor, days[i : i + 1]) for i in range(SAMPLE)]) / SAMPLE
    return {
        "window_cpu_s": fastest,
        "window_all_cpu_s": fastest * AGENTS * WINDOWS * EPISODE,
        "window_pruned_cpu_s": needed,
        "window_largest_difference": slowest_agreement,
    }


def gradient() -> Figures:
    """One update of twin critics, actor and targets. The first one also warms up; the second is reported."""
    task = seed_task()
    replay = Replay(task.schema(), 50_000, seed=0)
    actor = task.init_actor(1, torch.Generator().manual_seed(0))
    episodes = task.draw_episodes(WINDOWS, seeds.generator(0, "episodes", 0))
    for chunk in task.rollout(actor, episodes, record=True).transitions:
        replay.extend(chunk.steps, chunk.after)
    learners = Learners(task, task.alg, actor, torch.Generator().manual_seed(1))
    rng = torch.Generator().manual_seed(2)
    seconds = [
        cpu(lambda: learners.train(lambda: task.batch(replay), 1, rng, lambda done: None)) for _ in range(2)
    ]
    return {"gradient_cpu_s": seconds[1]}


PARTS: dict[str, Callable[[], Figures]] = {"evaluate": evaluate, "window": window, "gradient": gradient}


def run_part(name: str) -> Figures:
    done = subprocess.run(
        [sys.executable, __file__, "--part", name], check=True, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    figures: Figures = json.loads(done.stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, help="one part in this process, as JSON")
    part = parser.parse_args().part
    if part:
        torch.set_num_threads(1)
        figures = PARTS[part]()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        print(json.dumps({**figures, f"{part}_peak_gb": peak}))
        return
    results: Figures = {}
    for name in PARTS:
        results |= run_part(name)
    results["ratio"] = results["window_all_cpu_s"] / results["evaluate_cpu_s"]
    print(
        f"{SYMBOLS} columns, {TRADABLE} tradable, {WINDOW}-day window, {AGENTS} agents, {WINDOWS} x {EPISODE} days"
    )
    table = [
        ("evaluate, all agents", "evaluate_cpu_s", "CPU s", "<= 150"),
        ("  peak RSS", "evaluate_peak_gb", "GB", "<= 4"),
        ("window by window, one forward", "window_cpu_s", "CPU s", ""),
        ("  only the rows its last day needs", "window_pruned_cpu_s", "CPU s", ""),
        ("  all agents and days", "window_all_cpu_s", "~CPU s", ""),
        ("  ratio to evaluate", "ratio", "x", ">= 300"),
        (f"gradient step, one learner, batch {BATCH}", "gradient_cpu_s", "CPU s", "<= 30"),
        ("  peak RSS", "gradient_peak_gb", "GB", "bounded"),
    ]
    for label, key, unit, target in table:
        print(f"{label:42s} {results[key]:12.2f} {unit:7s} {target}")
    print(json.dumps({key: round(value, 9) for key, value in results.items()}))


if __name__ == "__main__":
    main()
