"""Small records: a million Ant-sized transitions in ours and in other libraries' buffers."""

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from eigen2.replay import Field, Replay, Schema
from eigen2.replay.schema import STEP_FIELDS

ANT_SIZE, ANT_TIME, ANT_STREAMS, ANT_OBS, ANT_ACTION, ANT_BATCH = 1_000_000, 32, 128, 37, 8, 1024

Calls = tuple[Callable[[], Any], Callable[[], Any]]


class AntSteps:
    """4,096 Ant-sized steps of 128 streams, to be added again and again."""

    def __init__(self) -> None:
        rng, shape = np.random.default_rng(0), (ANT_TIME, ANT_STREAMS)
        self.obs = rng.random((ANT_TIME + 1, ANT_STREAMS, ANT_OBS), np.float32)
        self.obs[-1] = self.obs[0]
        self.action = rng.random((*shape, ANT_ACTION), np.float32)
        self.reward = rng.random(shape, np.float32)
        self.end = np.zeros(shape, bool)

    def ours(self) -> Calls:
        replay = Replay(
            Schema((Field("obs", (ANT_OBS,)),), (Field("action", (ANT_ACTION,)), *STEP_FIELDS)),
            ANT_SIZE,
            seed=0,
        )
        steps = {"obs": self.obs[:-1], "action": self.action, "reward": self.reward}
        steps |= {"terminated": self.end, "truncated": self.end}
        return lambda: replay.extend(steps, {"obs": self.obs[-1]}), lambda: replay.sample(ANT_BATCH)

    def cpprb(self) -> Calls:
        import cpprb

        wide = {"obs": {"shape": ANT_OBS}, "act": {"shape": ANT_ACTION}, "next_obs": {"shape": ANT_OBS}}
        buffer = cpprb.ReplayBuffer(ANT_SIZE, {**wide, "rew": {}, "done": {}})
        columns = {"obs": self.obs[:-1], "act": self.action, "rew": self.reward, "next_obs": self.obs[1:]}
        flat = {name: array.reshape(-1, *array.shape[2:]) for name, array in columns.items()}
        return lambda: buffer.add(**flat, done=self.end.reshape(-1)), lambda: buffer.sample(ANT_BATCH)

    def sb3(self) -> Calls:
        import gymnasium as gym
        from stable_baselines3.common.buffers import ReplayBuffer

        spaces = [gym.spaces.Box(-1, 1, (size,), np.float32) for size in (ANT_OBS, ANT_ACTION)]
        buffer = ReplayBuffer(ANT_SIZE, spaces[0], spaces[1], "cpu", n_envs=ANT_STREAMS)
        infos: list[dict[str, Any]] = [{}] * ANT_STREAMS

        def add() -> None:
            for t in range(ANT_TIME):
                buffer.add(self.obs[t], self.obs[t + 1], self.action[t], self.reward[t], self.end[t], infos)

        return add, lambda: buffer.sample(ANT_BATCH)

    def torchrl(self) -> Calls:
        from tensordict import TensorDict
        from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

        buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(ANT_SIZE), batch_size=ANT_BATCH)
        after = {"obs": self.obs[1:], "reward": self.reward[..., None], "done": self.end[..., None]}
        shape = [ANT_TIME, ANT_STREAMS]
        steps = TensorDict(
            {"obs": self.obs[:-1], "action": self.action, "next": TensorDict(after, shape)}, shape
        )
        flat = steps.reshape(-1)
        return lambda: buffer.extend(flat), lambda: buffer.sample()


def part_ant() -> dict[str, float]:
    """Ant-sized records, a million of them in batches of 4,096: into a new buffer, over the old ones; then sample 1,024.

    A new buffer's memory must be touched once, in its constructor or while it fills; both are counted.
    """
    steps, figures = AntSteps(), dict[str, float]()
    for package in ("cpprb", "stable_baselines3.common.buffers", "torchrl.data"):
        import_module(package)
    rounds = ANT_SIZE // (ANT_TIME * ANT_STREAMS)
    for name, make in {
        "ours": steps.ours,
        "cpprb": steps.cpprb,
        "sb3": steps.sb3,
        "torchrl": steps.torchrl,
    }.items():
        began = time.process_time()
        add, sample = make()
        for kind in ("add", "refill"):
            for _ in range(rounds):
                add()
            now = time.process_time()
            figures[f"{name}_{kind}_per_s"] = rounds * ANT_TIME * ANT_STREAMS / (now - began)
            began = now
        figures[f"{name}_sample_us"] = median_us(sample)
    return figures


def median_us(work: Callable[[], Any], calls: int = 400) -> float:
    spent = []
    for _ in range(calls):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return float(np.median(spent)) * 1e6
