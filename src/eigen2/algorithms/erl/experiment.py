"""From a config to an ERL run in memory: its world, its trainer, who plays the episodes, how its champion is evaluated."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from eigen2 import seeds
from eigen2.algorithms.contract import (
    Champion,
    Evaluation,
    Experiment,
    Progress,
    Services,
    WalkForward,
    WhatIf,
    refuse_what_if,
)
from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.control import ControlTask, control_policy
from eigen2.algorithms.erl.executor import Executor, inline, processes
from eigen2.algorithms.erl.exported import control_champion, market_champion, policy_on
from eigen2.algorithms.erl.exporting import export_control, export_market
from eigen2.algorithms.erl.market import MarketTask
from eigen2.algorithms.erl.task import ERLTask
from eigen2.algorithms.erl.trainer import ERLTrainer
from eigen2.algorithms.market_folds import market_folds
from eigen2.config import Config
from eigen2.envs.config import GymConfig, TradingConfig
from eigen2.envs.control.catalogue import control_task
from eigen2.envs.control.config import ControlConfig
from eigen2.evaluation.control import evaluate_control
from eigen2.evaluation.market import evaluate_market_policy
from eigen2.market.kept import kept_prices
from eigen2.market.load import load_market
from eigen2.nets.device import pick_device
from eigen2.replay import Replay


class ERLExperiment(Experiment):
    trainer: ERLTrainer


class MarketExperiment(ERLExperiment):
    def __init__(self, config: Config, task: MarketTask, trainer: ERLTrainer, services: Services) -> None:
        self.config, self.task, self.trainer, self.services = config, task, trainer, services
        self.data_fingerprint = task.market.fingerprint
        self.rounded_data_fingerprint = task.market.rounded_fingerprint

    def own_data(self) -> bytes | None:
        return kept_prices(self.task.market)

    def evaluate(self, split: str, what_if: WhatIf | None = None) -> Evaluation:
        """Against the benchmarks; every use of the holdout is counted."""
        task, champion, market = self.task, self.trainer.champion.actor, self.task.market
        return evaluate_market_policy(
            market,
            task.env,
            policy_on(task, champion),
            split,
            seed=self.trainer.seed,
            champion_fingerprint=self.services.fingerprint(champion),
            ledger=self.trainer.ledger,
            records=self.services.evaluations(),
            holdouts=self.services.holdouts,
            what_if=what_if,
        )

    def walk_forward(self, config: Config, folds: int) -> WalkForward:
        return market_folds(config, self.task.market, folds)

    def champion(self) -> Champion:
        return market_champion(self.task, self.trainer.champion.actor)

    def export(self, directory: Path, states: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        return export_market(directory, self.config, self.task, self.trainer, self.services)


class ControlExperiment(ERLExperiment):
    def __init__(self, config: Config, task: ControlTask, trainer: ERLTrainer, services: Services) -> None:
        self.config, self.task, self.trainer, self.services = config, task, trainer, services
        self.notes = () if task.env.note is None else (task.env.note,)

    def champion(self) -> Champion:
        return control_champion(self.trainer.champion.actor, *self.task.env.action_bounds, self.task.env)

    def export(self, directory: Path, states: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        return export_control(directory, self.config, self.task, self.trainer, self.services)

    def evaluate(self, split: str, what_if: WhatIf | None = None) -> Evaluation:
        """On fresh episodes; there is nothing to split."""
        refuse_what_if(what_if)
        policy = control_policy(self.task, self.trainer.champion.actor)
        return evaluate_control(self.task.env, policy, seed=self.trainer.seed)


@contextmanager
def open_experiment(config: Config, services: Services) -> Iterator[ERLExperiment]:
    torch.set_num_threads(config.threads)
    task = make_task(config, services.data)
    with closing(task), _executor(config, services.data, task) as executor:
        trainer = make_trainer(config, task, executor, services.progress)
        if isinstance(task, MarketTask):
            yield MarketExperiment(config, task, trainer, services)
        else:
            yield ControlExperiment(config, task, trainer, services)


def make_task(config: Config, data: Path | None = None) -> MarketTask | ControlTask:
    """The world of a run, its prices read from `data` if it keeps them. Worker processes make their own, the same one."""
    env, alg, device = config.env, config.alg, pick_device(config.device)
    assert isinstance(alg, ERLConfig)
    if isinstance(env, TradingConfig):
        return MarketTask(load_market(env, config.seed, kept=data), env, alg, device)
    assert isinstance(env, GymConfig | ControlConfig)
    return ControlTask(control_task(env), alg, config.seed, device)


def make_trainer(
    config: Config,
    task: MarketTask | ControlTask,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> ERLTrainer:
    seed = seeds.integer(config.seed, "replay")
    replay = Replay(task.schema(), config.replay.capacity, seed, compress=config.replay.compress)
    return ERLTrainer(task, task.alg, replay, config.seed, executor=executor, progress=progress)


def _executor(config: Config, data: Path | None, task: ERLTask) -> AbstractContextManager[Executor]:
    if config.cluster == "inline":
        return nullcontext(inline(task))
    return processes(partial(make_task, config, data), config.workers, config.threads)
