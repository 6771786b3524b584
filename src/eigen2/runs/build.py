"""From a config to the objects of a run."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch

from eigen2 import seeds
from eigen2.config import Config
from eigen2.envs.config import GymConfig, TradingConfig
from eigen2.envs.control.catalogue import make_task as make_control_task
from eigen2.envs.control.config import ControlConfig, TasksConfig
from eigen2.envs.control.environments import Task as ControlTask
from eigen2.envs.control.gymnasium_task import GymnasiumTask
from eigen2.envs.trading import TradingCore
from eigen2.erl.config import ERLConfig
from eigen2.erl.gym import GymTask
from eigen2.erl.market import MarketTask
from eigen2.erl.task import Rollout
from eigen2.erl.trainer import ERLTrainer
from eigen2.erl.workers import Play, Work, inline, processes
from eigen2.errors import ConfigError, StoppedEarly
from eigen2.evaluation.backtest import run_policy
from eigen2.evaluation.ledger import TrialLedger
from eigen2.evaluation.policies import equal_weight_benchmark
from eigen2.market.data import MarketData
from eigen2.market.load import load_market
from eigen2.pwm.config import PWMConfig
from eigen2.pwm.multitask import MultiTaskTrainer
from eigen2.pwm.trainer import PWMTrainer
from eigen2.replay import Replay, Schema
from eigen2.runs.trainer import Progress


@dataclass(frozen=True)
class Built:
    """A run's trainer and what it stands on."""

    config: Config
    market: MarketData | None
    task: MarketTask | GymTask | ControlTask | None
    """None when there are several."""
    trainer: ERLTrainer | PWMTrainer | MultiTaskTrainer

    @property
    def data_fingerprint(self) -> str:
        return "" if self.market is None else self.market.fingerprint


@contextmanager
def build(config: Config, progress: Progress | None = None) -> Iterator[Built]:
    """Everything in memory, nothing on disk; worker processes end with the context."""
    torch.set_num_threads(config.threads)
    if isinstance(config.alg, PWMConfig):
        yield _build_pwm(config, config.alg)
        return
    market = load_prices(config)
    task = make_task(config, market)
    ledger = trial_ledger(task) if isinstance(task, MarketTask) else None
    with _players(config, task) as play:
        trainer = ERLTrainer(
            task, config.alg, _replay(config, task.schema()), config.seed,
            ledger=ledger, play=play, progress=progress,
        )  # fmt: skip
        yield Built(config, market, task, trainer)


def _build_pwm(config: Config, alg: PWMConfig) -> Built:
    device, replay = pick_device(config.device).type, config.replay
    if isinstance(config.env, TasksConfig):
        tasks = [control_task(env) for env in config.env.distinct]
        several = MultiTaskTrainer(alg, tasks, config.seed, device, config.threads, replay.compress)
        return Built(config, None, None, several)
    assert not isinstance(config.env, TradingConfig)
    task = control_task(config.env)
    trainer = PWMTrainer(alg, task, config.seed, replay.capacity, device, config.threads, replay.compress)
    return Built(config, None, task, trainer)


def _replay(config: Config, schema: Schema) -> Replay:
    seed = seeds.integer(config.seed, "replay")
    return Replay(schema, config.replay.capacity, seed, compress=config.replay.compress)


def control_task(env: GymConfig | ControlConfig) -> ControlTask:
    return GymnasiumTask(env) if isinstance(env, GymConfig) else make_control_task(env.task)


def load_prices(config: Config) -> MarketData | None:
    return load_market(config.env, config.seed) if isinstance(config.env, TradingConfig) else None


def make_task(config: Config, market: MarketData | None) -> MarketTask | GymTask:
    """The world of an ERL run."""
    assert isinstance(config.alg, ERLConfig)
    device = pick_device(config.device)
    if isinstance(config.env, GymConfig):
        return GymTask(config.env, config.alg, config.seed, device)
    assert market is not None
    assert isinstance(config.env, TradingConfig)
    return MarketTask(market, config.env, config.alg, device)


def worker_task(config: Config) -> MarketTask | GymTask:
    """A worker process's own task; workers end with the process they work for, even if it is killed."""
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    return make_task(config, load_prices(config))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(StoppedEarly.exit_code)


def trial_ledger(task: MarketTask) -> TrialLedger:
    market = task.market
    rival = equal_weight_benchmark(market, task.env, market.validation)
    played = run_policy(TradingCore(market, rival.config, 1), rival.policy, market.validation)
    return TrialLedger(played.log_returns[0, task.validated_days()])


def pick_device(name: str) -> torch.device:
    """auto takes CUDA, then MPS, then the CPU; a device asked for by name must be there."""
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, there in present.items() if there))
    if not present[name]:
        raise ConfigError(f"device={name} is not available on this machine; use device=auto or device=cpu.")
    return torch.device(name)


@contextmanager
def _players(config: Config, task: MarketTask | GymTask) -> Iterator[Play]:
    if config.cluster == "inline":
        yield inline(task)
        return
    with processes(partial(worker_task, config), config.workers, config.threads) as play:
        yield partial(_shielded, play)


def _shielded(play: Play, work: Sequence[Work]) -> Iterator[Rollout]:
    """Hand out work; workers that are started by it inherit the mask and leave Ctrl-C to the main process.

    SIGTERM is left to them: it is how a pool ends its workers when one of them has died.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2))
    try:
        return play(work)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
