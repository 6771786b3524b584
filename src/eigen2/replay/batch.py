"""What a sample is.

All tensors look into buffers that the next sample of the same size overwrites. Read them, never write them (windows of
one path overlap), and `clone` what must last.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def _clone(fields: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in fields.items()}


@dataclass(frozen=True)
class Batch:
    """`n` transitions. For n-step samples, summed fields hold the discounted sum over the steps taken."""

    observation: dict[str, Tensor]
    """Observation fields ``[n, ...]``."""
    next_observation: dict[str, Tensor]
    """The observation to bootstrap from ``[n, ...]``: after one step, or after the n-step's last one."""
    step: dict[str, Tensor]
    """Step fields ``[n, ...]``: action, reward, terminated, truncated and the schema's others, of the first step."""
    discount: Tensor
    """Float32 ``[n]``: gamma to the number of steps taken, 0 after a terminated step; truncation bootstraps."""
    index: npt.NDArray[np.int64]
    """Transition numbers ``[n]``, as `update_priorities` wants them."""
    weight: Tensor | None = None
    """Float32 importance weights ``[n]``, largest 1 (prioritised samples only)."""

    def clone(self) -> "Batch":
        """A copy that later samples do not touch."""
        return Batch(
            _clone(self.observation), _clone(self.next_observation), _clone(self.step),
            self.discount.clone(), self.index.copy(), None if self.weight is None else self.weight.clone(),
        )  # fmt: skip


@dataclass(frozen=True)
class Sequences:
    """`n` runs of `horizon` consecutive transitions of one episode each, time-major."""

    observation: dict[str, Tensor]
    """Observation fields ``[horizon + 1, n, ...]``; the last row is the observation after the last step."""
    step: dict[str, Tensor]
    """Step fields ``[horizon, n, ...]``."""
    index: npt.NDArray[np.int64]
    """Transition numbers ``[horizon, n]``."""

    def clone(self) -> "Sequences":
        """A copy that later samples do not touch."""
        return Sequences(_clone(self.observation), _clone(self.step), self.index.copy())
