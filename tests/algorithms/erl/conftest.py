import json

import numpy as np
import pytest
import torch

from eigen2 import seeds
from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.control import ControlTask
from eigen2.algorithms.erl.market import MarketTask
from eigen2.algorithms.erl.trainer import ERLTrainer
from eigen2.envs.config import GymConfig, TradingConfig
from eigen2.envs.control.catalogue import control_task
from eigen2.market.load import load_market
from eigen2.replay import Replay
from eigen2.store.memory import MemoryObjects

ENV = {
    "data": "planted_reversal",
    "synthetic": {"days": 160, "symbols": 4, "seed": 1},
    "features": ("return_1", "return_3"),
    "window": 16,
    "validation_days": 20,
    "holdout_days": 20,
    "embargo_days": 2,
    "trading_days": 8,
    "settlement_days": 3,
}
ALG = {
    "population": 6,
    "generations": 4,
    "windows": 3,
    "validation_windows": 2,
    "learners": 2,
    "gradient_steps": 2,
    "direct_steps": 0,
    "batch": 16,
    "run_length": 4,
    "learning_starts": 20,
    "hidden": 8,
    "elites": 2,
    "block": 3,
}
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def alg():
    """alg(**changes) -> a config that trains in a fraction of a second."""
    return lambda **changes: ERLConfig.model_validate(ALG | changes)


@pytest.fixture(scope="session")
def market_task():
    """market_task(alg, **env) -> four symbols over 160 days."""

    market = load_market(TradingConfig.model_validate(ENV), 1)

    def make(alg, **env):
        return MarketTask(market, TradingConfig.model_validate(ENV | env), alg, CPU)

    return make


@pytest.fixture(scope="session")
def gym_task():
    def make(alg, steps=25):
        return ControlTask(control_task(GymConfig(id="Pendulum-v1", max_episode_steps=steps)), alg, 3, CPU)

    return make


@pytest.fixture(scope="session")
def trainer():
    """trainer(task, seed=5, replay=None, executor=None) -> a fresh trainer."""

    def make(task, seed=5, replay=None, executor=None):
        if replay is None:
            replay = Replay(task.schema(), 400, seeds.integer(seed, "replay"))
        return ERLTrainer(task, task.alg, replay, seed, executor=executor)

    return make


@pytest.fixture(scope="session")
def copy_of():
    """copy_of(replay): through its snapshot, as a checkpoint stores it."""

    def copy(replay):
        disk = MemoryObjects()
        manifest = replay.snapshot().write(disk.put, disk.has)
        return Replay.restore(json.loads(json.dumps(manifest)), disk.read)

    return copy


@pytest.fixture(scope="session")
def filled():
    """filled(task, actor, episodes=4) -> a replay with the actor's own episodes."""

    def fill(task, actor, episodes=4, noise=0.0):
        replay = Replay(task.schema(), 2_000, seed=1)
        starts = task.draw_episodes(episodes, np.random.default_rng(2))
        rollout = task.rollout(actor, starts, record=True, noise=noise, rng=np.random.default_rng(3))
        for chunk in rollout.transitions:
            replay.extend(chunk.steps, chunk.after)
        return replay

    return fill
