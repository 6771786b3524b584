"""What the ERL trainer needs of a world: networks to act in it, episodes to score agents on, batches to learn from.

Two worlds exist: a market (`erl.market`) and a continuous control task (`erl.control`). The trainer, the gradient
learner and evolution are the same for both; what only one of them can do is a capability it offers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigen2.algorithms.erl.evolution import FloatArray
from eigen2.evaluation.ledger import TrialLedger
from eigen2.nets.stacked import Params
from eigen2.replay import Replay, Schema

Episodes = npt.NDArray[np.int64]
"""[episode] What an episode starts from: a day of the market, or a seed of the environment."""


@dataclass(frozen=True)
class Transitions:
    """Recorded steps for `Replay.extend`: `steps` fields [time, stream, ...], `after` [stream, ...]."""

    steps: dict[str, npt.NDArray[Any]]
    after: dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class RolloutResult:
    """The same episodes played by some agents."""

    returns: FloatArray
    """[agent, episode] undiscounted."""
    steps: int
    """Environment steps taken."""
    transitions: tuple[Transitions, ...] = ()
    """Empty when nothing was recorded."""
    daily: FloatArray | None = None
    """[agent, episode, step] changes of log equity (markets only)."""


@dataclass(frozen=True)
class LearnerBatch:
    """Transitions to learn from."""

    state: Any
    """Whatever the task's own networks read, [row, ...] in the end; a slice of it is the state of those rows."""
    action: Tensor
    """[row, ...]"""
    reward: Tensor
    """[row, value] n-step sums; one value, or one per symbol."""
    next_state: Any
    discount: Tensor
    """[row, 1] gamma to the n, zero where the episode ended for good."""

    def part(self, rows: slice) -> "LearnerBatch":
        if rows == slice(0, len(self.action)):
            return self
        return LearnerBatch(
            self.state[rows], self.action[rows], self.reward[rows], self.next_state[rows], self.discount[rows]
        )


class DirectLoss(Protocol):
    """A loss that is differentiable through the world itself."""

    days: int
    """Steps of a sequence."""

    def draw(self, replay: Replay, runs: int, length: int) -> Any:
        """`runs` sequences of `length` steps."""
        ...

    def loss(self, actor: Params, drawn: Any, runs: slice) -> Tensor:
        """Of each agent `[agent]`, over some of the sequences."""
        ...


class Trials(Protocol):
    """The record of everything that was tried, by which an evaluation corrects for selection."""

    ledger: TrialLedger

    def record(self, generation: int, validated: Sequence[RolloutResult]) -> None:
        """Rollouts of the validation episodes by all candidates of a generation."""
        ...


class ERLTask(ABC):
    device: torch.device
    unit = "return"
    """Of an episode's return, for people."""

    # Episodes

    @abstractmethod
    def draw_episodes(self, count: int, rng: np.random.Generator) -> Episodes:
        """Training episodes, the same for all agents of a generation."""

    @abstractmethod
    def validation_episodes(self) -> Episodes:
        """Fixed for the whole run."""

    @abstractmethod
    def rollout(self, actor: Params, episodes: Episodes, *, record: bool = False, noise: float = 0.0,
                rng: np.random.Generator | None = None) -> RolloutResult: ...  # fmt: skip

    # Learning

    @abstractmethod
    def schema(self) -> Schema:
        """What a transition is made of."""

    @abstractmethod
    def batch(self, replay: Replay) -> LearnerBatch: ...

    # Networks

    @abstractmethod
    def init_actor(self, agents: int, rng: torch.Generator) -> Params: ...

    @abstractmethod
    def init_critic(self, agents: int, rng: torch.Generator) -> Params: ...

    @abstractmethod
    def policy(self, actor: Params, state: Any) -> Tensor:
        """Pre-activations `[agent, row, ...]`."""

    @abstractmethod
    def squash(self, raw: Tensor) -> Tensor:
        """Pre-activations -> actions of the environment, differentiable."""

    @abstractmethod
    def smooth(self, action: Tensor, noise: Tensor) -> Tensor:
        """Add noise, in units of the action's half range, and stay in bounds."""

    @abstractmethod
    def value(self, critic: Params, state: Any, action: Tensor) -> Tensor:
        """action `[agent or 1, row, ...]` -> `[agent, row, value]`."""

    # Capabilities, and what is held

    def direct_gradient(self) -> DirectLoss | None:
        """None where rewards are not differentiable in the actions."""
        return None

    def trials(self) -> Trials | None:
        """An empty record; None where evaluations do not correct for selection."""
        return None

    def owners(self) -> dict[str, int]:
        """Bytes held, by name."""
        return {}

    def drop_caches(self) -> None:  # noqa: B027
        """Let go of what can be made again, and work on less at a time; results stay the same, to the last bit."""

    def close(self) -> None:  # noqa: B027
        """Close the environments."""


def agent_blocks(agents: int, size: int) -> Sequence[slice]:
    """The unit of work: results depend on the blocks, never on who computes them."""
    return [slice(first, min(first + size, agents)) for first in range(0, agents, size)]
