"""The replay for TorchRL: its samplers and transforms read our store; writing stays with `Replay.extend`."""

from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torchrl.data import (
    ImmutableDatasetWriter,
    Storage,
    TensorDictReplayBuffer,
)

from eigen2.replay.buffer import Replay


class ReplayStorage(Storage):  # type: ignore[misc]
    """Item i is the i-th oldest live transition, in TorchRL's layout: ``(obs, action, next: (obs, reward, done))``."""

    def __init__(self, replay: Replay) -> None:
        super().__init__(max_size=replay.capacity)
        self.replay = replay

    def __len__(self) -> int:
        return len(self.replay)

    def get(self, index: Any) -> TensorDict:
        """A TensorDict of the items at `index` (an integer, a slice, a list or a tensor of integers)."""
        chosen = torch.arange(len(self))[index]
        numbers = self.replay.links.first + chosen.reshape(-1).numpy().astype(np.int64)
        batch = self.replay.transitions(numbers).clone()
        ends = {name: batch.step.pop(name)[:, None] for name in ("terminated", "truncated")}
        after = {**batch.next_observation, **ends, "done": ends["terminated"] | ends["truncated"]}
        after["reward"] = batch.step.pop("reward")[:, None]
        found = TensorDict({**batch.observation, **batch.step, "next": after}, batch_size=[len(numbers)])
        return found.reshape(chosen.shape)

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        raise NotImplementedError("write with Replay.extend; TorchRL reads this storage")

    def contains(self, item: Any) -> bool:
        return bool(0 <= int(item) < len(self))

    def state_dict(self) -> dict[str, Any]:
        raise NotImplementedError("save with Replay.snapshot")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        raise NotImplementedError("load with Replay.restore")

    def _empty(self) -> None:
        raise NotImplementedError("a replay is not emptied in place; make a new one")


def torchrl_buffer(replay: Replay, batch_size: int, **options: Any) -> TensorDictReplayBuffer:
    """A TorchRL buffer over `replay`; `options` go to it (sampler, transform, generator, ...)."""
    return TensorDictReplayBuffer(
        storage=ReplayStorage(replay),
        writer=ImmutableDatasetWriter(),
        collate_fn=lambda batch: batch,
        batch_size=batch_size,
        **options,
    )
