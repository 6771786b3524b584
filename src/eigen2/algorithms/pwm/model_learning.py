"""One gradient step of a world model, in parts if its batch does not fit onto the device."""

from collections.abc import Callable

import torch
from torch import Tensor

from eigen2.algorithms.pwm.optimiser import Optimiser
from eigen2.algorithms.pwm.sequences import SequenceBatch
from eigen2.algorithms.pwm.world_model import ModelLoss, WorldModel
from eigen2.nets.micro_batches import Gradients, MicroBatches

Part = Callable[[slice], SequenceBatch]
"""Some runs of a batch, as the model reads them."""


def fit_model(
    model: WorldModel,
    optimiser: Optimiser,
    batch: SequenceBatch,
    gamma: float,
    times: torch.Generator,
    lr_scale: float,
    micro_batches: MicroBatches,
    part: Part | None = None,
) -> tuple[ModelLoss, float]:
    """-> losses, and the norm of the gradient; `part` where the model reads more than the batch."""
    tau = model.dynamics.draw(batch.action, times)

    def compute(runs: slice) -> tuple[Tensor, Gradients]:
        read = (part or batch.part)(runs)
        loss = model.loss(read, gamma, None if tau is None else tau[:, runs])
        return loss.stacked(), optimiser.gradients(loss.total)

    found, gradients = micro_batches.gradients("model update", batch.action.shape[1], compute)
    loss = ModelLoss(*found.unbind())
    return loss, optimiser.step(loss.total, gradients, lr_scale)
