"""What the ERL trainer needs of a world: networks to act in it, episodes to score agents on, batches to learn from.

Two worlds exist: a market (`erl.market`) and any continuous Gymnasium environment (`erl.gym`). The trainer, the
gradient learner and evolution are the same for both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigen2.nets.stacked import Params
from eigen2.replay import Replay, Schema

FloatArray = npt.NDArray[np.float64]
Episodes = npt.NDArray[np.int64]
"""[episode] What an episode starts from: a day of the market, or a seed of the environment."""


@dataclass(frozen=True)
class Transitions:
    """Recorded steps for `Replay.extend`: `steps` fields [time, stream, ...], `after` [stream, ...]."""

    steps: dict[str, npt.NDArray[Any]]
    after: dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Rollout:
    """The same episodes played by some agents."""

    returns: FloatArray
    """[agent, episode] undiscounted."""
    daily: FloatArray | None
    """[agent, episode, step] changes of log equity (markets only)."""
    steps: int
    """Environment steps taken."""
    transitions: tuple[Transitions, ...]
    """Empty when nothing was recorded."""


@dataclass(frozen=True)
class Batch:
    """Transitions to learn from."""

    state: Any
    """Whatever the task's own networks read, [row, ...] in the end."""
    action: Tensor
    """[row, ...]"""
    reward: Tensor
    """[row, value] n-step sums; one value, or one per symbol."""
    next_state: Any
    discount: Tensor
    """[row, 1] gamma to the n, zero where the episode ended for good."""


class Task(Protocol):
    device: torch.device

    def schema(self) -> Schema:
        """What a transition is made of."""
        ...

    def draw_episodes(self, count: int, rng: np.random.Generator) -> Episodes:
        """Training episodes, the same for all agents of a generation."""
        ...

    def validation_episodes(self) -> Episodes:
        """Fixed for the whole run."""
        ...

    def rollout(self, actor: Params, episodes: Episodes, *, record: bool = False, noise: float = 0.0,
                rng: np.random.Generator | None = None) -> Rollout: ...  # fmt: skip

    def batch(self, replay: Replay) -> Batch: ...

    def init_actor(self, agents: int, rng: torch.Generator) -> Params: ...

    def init_critic(self, agents: int, rng: torch.Generator) -> Params: ...

    def policy(self, actor: Params, state: Any) -> Tensor:
        """Pre-activations `[agent, row, ...]`."""
        ...

    def squash(self, raw: Tensor) -> Tensor:
        """Pre-activations -> actions of the environment, differentiable."""
        ...

    def smooth(self, action: Tensor, noise: Tensor) -> Tensor:
        """Add noise, in units of the action's half range, and stay in bounds."""
        ...

    def value(self, critic: Params, state: Any, action: Tensor) -> Tensor:
        """action `[agent or 1, row, ...]` -> `[agent, row, value]`."""
        ...


def agent_blocks(agents: int, size: int) -> Sequence[slice]:
    """The unit of work: results depend on the blocks, never on who computes them."""
    return [slice(first, min(first + size, agents)) for first in range(0, agents, size)]
