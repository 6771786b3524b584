"""Looking at a run's champion. Looking changes nothing of the training state; each look is counted."""

import json
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from eigen2.config import Config
from eigen2.envs.config import GymConfig, TradingConfig
from eigen2.envs.control.environments import Task as ControlTask
from eigen2.envs.control.gymnasium_task import GymnasiumTask
from eigen2.envs.control.reference_policies import Returns, at_random, play, stand_still
from eigen2.envs.control.task import PHYSICS_NOTE
from eigen2.envs.gym import GymBatch
from eigen2.erl.gym import GymTask, gym_policy
from eigen2.erl.market import MarketTask
from eigen2.erl.policy import market_policy
from eigen2.erl.trainer import ERLTrainer
from eigen2.errors import ConfigError
from eigen2.evaluation.control import ControlEvaluation, evaluate_control
from eigen2.evaluation.evaluate import evaluate_market, named_policy
from eigen2.evaluation.looks import holdout_looks
from eigen2.evaluation.table import evaluation_table
from eigen2.pwm.multitask import MultiTaskTrainer
from eigen2.pwm.trainer import PWMTrainer
from eigen2.runs.build import Built, build, load_prices
from eigen2.runs.directory import RunDirectory
from eigen2.runs.journal import read_log
from eigen2.store.checkpoints import Checkpoints
from eigen2.store.state import fingerprint

EPISODES = 20


@dataclass(frozen=True)
class Look:
    """What an evaluation found, for machines and for people."""

    facts: dict[str, Any]
    shown: RenderableType


def evaluate_run(run: RunDirectory, split: str) -> Look:
    """The champion of a run's newest good checkpoint on `split`, against the benchmarks."""
    checkpoint = Checkpoints(run.path).newest_good().checkpoint
    if checkpoint is None:
        raise ConfigError(f"{run.path} has no checkpoint yet; there is nothing to evaluate.")
    with build(run.read_config()) as built:
        built.trainer.load_state_dict(checkpoint.state())
        return evaluate_champion(run, built, split)


def evaluate_champion(run: RunDirectory, built: Built, split: str) -> Look:
    trainer, task = built.trainer, built.task
    if isinstance(trainer, PWMTrainer):
        look = _closed_loop(trainer)
    elif isinstance(trainer, MultiTaskTrainer):
        look = _every_task(trainer)
    elif not trainer.champion.crowned:
        raise ConfigError(f"{run.path} has no champion before its first generation ends.")
    elif isinstance(task, GymTask):
        look = _control(built.config, task, trainer)
    else:
        look = _market(run, built, trainer, split)
    _append(run, look.facts)
    return look


def evaluate_policy(config: Config, policy: str, split: str) -> Look:
    """A benchmark by name, without a run."""
    market = load_prices(config)
    if market is None or not isinstance(config.env, TradingConfig):
        raise ConfigError("--policy names a benchmark of a market; use it with env=trading.")
    contestant = named_policy(policy, market, config.env, split, seed=config.seed)
    found = evaluate_market(market, config.env, contestant, split, seed=config.seed)
    return Look(found.to_json(), evaluation_table(found))


def _market(run: RunDirectory, built: Built, trainer: ERLTrainer, split: str) -> Look:
    market, task, env = built.market, built.task, built.config.env
    assert market is not None
    assert isinstance(task, MarketTask)
    assert isinstance(env, TradingConfig)
    champion = trainer.champion.actor
    name = fingerprint(dict(champion))
    looks = holdout_looks(read_log(run.log("evaluations")), name) if split == "holdout" else None
    policy = market_policy(task, champion, (market.validation, market.holdout))
    found = evaluate_market(
        market, env, policy, split, seed=built.config.seed, ledger=trainer.ledger, looks=looks
    )
    return Look({**found.to_json(), "champion_fingerprint": name}, evaluation_table(found))


def _control(config: Config, task: GymTask, trainer: ERLTrainer) -> Look:
    assert isinstance(config.env, GymConfig)
    batch = GymBatch(config.env, min(EPISODES, 10))
    found = evaluate_control(
        gym_policy(task, trainer.champion.actor), batch, seed=config.seed, episodes=EPISODES
    )
    return Look({"env": config.env.id, **found.to_json()}, _control_table(config.env.id, found))


def _closed_loop(trainer: PWMTrainer) -> Look:
    """The policy as it stands at the end, not at its best moment, on fresh episodes."""
    found = _beside_references(trainer.task, trainer.evaluate(EPISODES, "final"), trainer.seed)
    note = _note(trainer.task)
    shown = Group(
        _control_table(trainer.task.name, found), *(Text(text, style="dim") for text in note.values())
    )
    return Look({"env": trainer.task.name, **note, **found.to_json()}, shown)


def _every_task(trainer: MultiTaskTrainer) -> Look:
    """Every task's policy in its own environment; the means over tasks are for orientation only."""
    found = {
        task.name: _beside_references(task, trainer.evaluate(number, EPISODES, "final"), trainer.seed)
        for number, task in enumerate(trainer.tasks)
    }
    facts = [evaluation.to_json() for evaluation in found.values()]
    means = {
        key: float(np.mean([fact[key] for fact in facts]))
        for key in ("mean_return", "std_return", "random_return", "stand_still_return")
    }
    note = {key: text for task in trainer.tasks for key, text in _note(task).items()}
    tables = [_control_table(name, evaluation) for name, evaluation in found.items()]
    shown = Group(*tables, *(Text(text, style="dim") for text in note.values()))
    by_task = dict(zip(found, facts, strict=True))
    return Look({"env": "tasks", **note, **means, "episodes": EPISODES, "tasks": by_task}, shown)


def _beside_references(task: ControlTask, own: Returns, seed: int) -> ControlEvaluation:
    return ControlEvaluation(
        mean_return=own.mean,
        std_return=own.std,
        episodes=EPISODES,
        random_return=play(task, at_random(task, seed), EPISODES, seed, "final").mean,
        stand_still_return=play(task, stand_still(task), EPISODES, seed, "final").mean,
        returns=tuple(float(value) for value in own.returns),
    )


def _note(task: ControlTask) -> dict[str, str]:
    return {} if isinstance(task, GymnasiumTask) else {"note": PHYSICS_NOTE}


def _control_table(name: str, found: ControlEvaluation) -> RenderableType:
    table = Table(title=f"{name}, {found.episodes} fresh episodes", title_justify="left")
    for column in ("", "mean return", "deviation"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("champion", f"{found.mean_return:.1f}", f"{found.std_return:.1f}")
    table.add_row("random actions", f"{found.random_return:.1f}", "")
    table.add_row("standing still", f"{found.stand_still_return:.1f}", "")
    best = max(found.random_return, found.stand_still_return)
    verdict = "better than" if found.mean_return > best else "no better than"
    return Group(table, Text(f"The champion is {verdict} both random actions and standing still."))


def _append(run: RunDirectory, facts: dict[str, Any]) -> None:
    """One line in evaluations.jsonl, written whole: several commands may look at the same time."""
    record = {"time": round(time.time(), 3), **facts}
    record["champion"] = facts.get("champion_fingerprint")
    record["champion_figures"] = facts.get("champion")
    line = (json.dumps(record, allow_nan=False) + "\n").encode()
    handle = os.open(run.log("evaluations"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line)
        os.fsync(handle)
    finally:
        os.close(handle)
