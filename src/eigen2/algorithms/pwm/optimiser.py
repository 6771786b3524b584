"""Adam with a clipped gradient that stops at the first number that is not finite."""

from typing import Any

import torch
from torch import Tensor, nn

from eigen2.errors import DamagedStateError
from eigen2.nets.held import held_bytes
from eigen2.nets.micro_batches import Gradients


class Optimiser:
    """The learning rate is given at each step, so a schedule is a pure function of the global step."""

    def __init__(
        self,
        name: str,
        module: nn.Module,
        rate: float,
        clip: float,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        self.name, self.rate, self.clip = name, rate, clip
        self._named = dict(module.named_parameters())
        self._parameters = list(self._named.values())
        self._adam = torch.optim.Adam(self._parameters, lr=rate, betas=betas, fused=True)

    def gradients(self, loss: Tensor) -> Gradients:
        return torch.autograd.grad(loss, self._parameters)

    def step(self, loss: Tensor, gradients: Gradients, lr_scale: float) -> float:
        """One step at `lr_scale` of the learning rate, along the gradients of a loss. -> gradient norm before clipping"""
        norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))
        if not norm < float("inf"):
            self._name_the_culprit(loss, gradients)
        if norm > self.clip:
            torch._foreach_mul_(gradients, self.clip / norm)
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        for group in self._adam.param_groups:
            group["lr"] = self.rate * lr_scale
        self._adam.step()
        self._adam.zero_grad(set_to_none=True)
        return norm

    @property
    def nbytes(self) -> int:
        """Of the moments."""
        return held_bytes(self._adam.state)

    def state_dict(self) -> dict[str, Any]:
        """Moments by parameter name."""
        return {
            name: {key: value.clone() for key, value in self._adam.state[parameter].items()}
            for name, parameter in self._named.items()
            if parameter in self._adam.state
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._adam.state.clear()
        for name, moments in state.items():
            parameter = self._named[name]
            self._adam.state[parameter] = {
                key: value.clone().to(parameter.device) for key, value in moments.items()
            }

    def _name_the_culprit(self, loss: Tensor, gradients: Gradients) -> None:
        bad = [
            name
            for name, gradient in zip(self._named, gradients, strict=True)
            if not gradient.isfinite().all()
        ]
        raise DamagedStateError(
            f"{self.name} loss is {loss.item()} and its gradient is not finite at {bad[0] if bad else 'its norm'}; "
            "resume from the last checkpoint with a lower learning rate"
        )


def linear_lr_scale(done: int, steps: int, final: float) -> float:
    """What the learning rates are multiplied by after `done` of `steps`: linear from 1 to `final`, that of the last step."""
    return 1.0 - (1.0 - final) * min(1.0, done / max(1, steps - 1))
