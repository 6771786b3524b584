"""Training sequences for the world model, each within one episode.

They show the last step of an episode only as their own last step, more rarely than it happens; the termination loss
weighs it the more.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigen2.replay.buffer import Replay


@dataclass(frozen=True)
class SequenceBatch:
    """`n` runs of H steps, time-major."""

    observation: Tensor
    """[H + 1, n, O]"""
    action: Tensor
    """[H, n, A]"""
    reward: Tensor
    """[H, n]"""
    terminated: Tensor
    """[H, n], 0 or 1"""

    def part(self, chosen: slice) -> "SequenceBatch":
        """Some of the runs."""
        return SequenceBatch(
            self.observation[:, chosen],
            self.action[:, chosen],
            self.reward[:, chosen],
            self.terminated[:, chosen],
        )


def whole_sequences(replay: Replay, n: int, horizon: int) -> SequenceBatch:
    """Drawn from the replay's own stream."""
    batch = replay.sample_sequences(n, horizon)
    return SequenceBatch(
        # One order in memory, however the replay keeps observations: sums over the batch round the same.
        batch.observation["obs"].clone(memory_format=torch.contiguous_format),
        batch.step["action"].clone(),
        batch.step["reward"].clone(),
        batch.step["terminated"].to(torch.float32),
    )


def sequences_from(replay: Replay, starts: NDArray[np.int64], horizon: int) -> SequenceBatch:
    """The sequences that begin with the transitions `starts` [n], each `horizon` steps before its episode's end or more."""
    path, _ = replay.links.walk(starts, horizon - 1)
    batch = replay.transitions(path.reshape(-1))
    shape = (horizon, len(starts))
    before = batch.observation["obs"].reshape(*shape, -1)
    after = batch.next_observation["obs"].reshape(*shape, -1)
    return SequenceBatch(
        torch.cat([before[:1], after]),
        batch.step["action"].reshape(*shape, -1).clone(),
        batch.step["reward"].reshape(shape).clone(),
        batch.step["terminated"].reshape(shape).to(torch.float32),
    )
