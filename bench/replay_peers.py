"""Other replay buffers behind one small interface, each storing (window, action, reward, next window, end)."""

import gzip
import pickle
import random
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class DequePickle:
    """As the seed describes it: a deque of copied tuples, pickled through gzip."""

    def __init__(self, capacity: int, shape: tuple[int, ...], action: int) -> None:
        self._items: deque[tuple[Array, Array, float, Array, bool]] = deque(maxlen=capacity)

    def add(self, window: Array, action: Array, reward: float, following: Array, end: bool) -> None:
        self._items.append((window.copy(), action, reward, following.copy(), end))

    def sample(self, n: int) -> Any:
        chosen = random.sample(self._items, n)
        return tuple(np.stack(column) for column in zip(*chosen, strict=True))

    def save(self, folder: Path) -> None:
        with gzip.open(folder / "buffer.pkl.gz", "wb", compresslevel=6) as file:
            pickle.dump(self._items, file, protocol=5)

    def load(self, folder: Path) -> None:
        with gzip.open(folder / "buffer.pkl.gz", "rb") as file:
            self._items = pickle.load(file)


class StableBaselines:
    def __init__(self, capacity: int, shape: tuple[int, ...], action: int) -> None:
        import gymnasium as gym
        from stable_baselines3.common.buffers import ReplayBuffer

        space = gym.spaces.Box(-np.inf, np.inf, shape, np.float32)
        self._buffer = ReplayBuffer(capacity, space, gym.spaces.Box(-1, 1, (action,), np.float32), "cpu")

    def add(self, window: Array, action: Array, reward: float, following: Array, end: bool) -> None:
        self._buffer.add(
            window[None], following[None], action[None], np.array([reward]), np.array([end]), [{}]
        )

    def sample(self, n: int) -> Any:
        return self._buffer.sample(n)

    def save(self, folder: Path) -> None:
        from stable_baselines3.common.save_util import save_to_pkl

        save_to_pkl(folder / "buffer.pkl", self._buffer)

    def load(self, folder: Path) -> None:
        from stable_baselines3.common.save_util import load_from_pkl

        self._buffer = load_from_pkl(folder / "buffer.pkl")


class TorchRLMemmap:
    def __init__(self, capacity: int, shape: tuple[int, ...], action: int) -> None:
        from torchrl.data import LazyMemmapStorage, TensorDictReplayBuffer

        self._buffer = TensorDictReplayBuffer(storage=LazyMemmapStorage(capacity))

    def add(self, window: Array, action: Array, reward: float, following: Array, end: bool) -> None:
        import torch
        from tensordict import TensorDict

        after = {
            "obs": torch.from_numpy(following),
            "reward": torch.tensor([reward]),
            "done": torch.tensor([end]),
        }
        self._buffer.add(
            TensorDict(
                {"obs": torch.from_numpy(window), "action": torch.from_numpy(action), "next": after}, []
            )
        )

    def sample(self, n: int) -> Any:
        return self._buffer.sample(n)

    def save(self, folder: Path) -> None:
        self._buffer.dumps(folder / "buffer")

    def load(self, folder: Path) -> None:
        self._buffer.loads(folder / "buffer")


class Cpprb:
    def __init__(self, capacity: int, shape: tuple[int, ...], action: int) -> None:
        import cpprb

        fields = {"obs": {"shape": shape}, "act": {"shape": action}, "rew": {}, "done": {}}
        self._buffer = cpprb.ReplayBuffer(capacity, fields, next_of="obs")

    def add(self, window: Array, action: Array, reward: float, following: Array, end: bool) -> None:
        self._buffer.add(obs=window, act=action, rew=reward, next_obs=following, done=end)
        if end:
            self._buffer.on_episode_end()

    def sample(self, n: int) -> Any:
        return self._buffer.sample(n)

    def save(self, folder: Path) -> None:
        self._buffer.save_transitions(folder / "buffer.npz", safe=False)

    def load(self, folder: Path) -> None:
        self._buffer.clear()
        self._buffer.load_transitions(folder / "buffer.npz")


PEERS: dict[str, type[Any]] = {
    "deque_gzip": DequePickle,
    "sb3": StableBaselines,
    "torchrl_memmap": TorchRLMemmap,
    "cpprb": Cpprb,
}
