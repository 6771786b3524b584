"""Training sequences for the world model, cut at episode ends instead of avoiding them.

A sampler of whole sequences shows the last step of an episode only at the end of a sequence, eight or sixteen times
too rarely and never right after a real observation; the model then learns late, or never, what falling looks like.
Here every stored step is equally likely as a start, and what lies behind an episode's end is marked as not valid.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eigen2.replay.buffer import Replay


@dataclass(frozen=True)
class SequenceBatch:
    """`n` runs of up to H steps, time-major."""

    observation: Tensor
    """[H + 1, n, O]"""
    action: Tensor
    """[H, n, A]"""
    reward: Tensor
    """[H, n]"""
    terminated: Tensor
    """[H, n], 0 or 1"""
    valid: Tensor
    """[H, n], 1 up to the episode's end, 0 behind it, where the last step is repeated"""


def draw_sequences(replay: Replay, n: int, horizon: int, stream: np.random.Generator) -> SequenceBatch:
    first = replay.links.first
    path, reached = replay.links.walk(stream.integers(first, first + len(replay), n), horizon - 1)
    batch = replay.transitions(path.reshape(-1))
    shape = (horizon, n)
    before = batch.observation["obs"].reshape(*shape, -1)
    after = batch.next_observation["obs"].reshape(*shape, -1)
    return SequenceBatch(
        torch.cat([before[:1], after]),
        batch.step["action"].reshape(*shape, -1).clone(),
        batch.step["reward"].reshape(shape).clone(),
        batch.step["terminated"].reshape(shape).to(torch.float32),
        torch.from_numpy(reached.astype(np.float32)),
    )
