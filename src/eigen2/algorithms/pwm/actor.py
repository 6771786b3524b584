"""The actor: a policy on latents. Actions are in (-1, 1) and differentiable in the weights (reparameterised noise)."""

import torch
from torch import Tensor, nn

from eigen2.algorithms.pwm.config import ActorConfig
from eigen2.nets.choices import Activation
from eigen2.nets.dense import Stream, mlp


class Actor(nn.Module):
    """a = tanh(mu(z) + sigma eps), sigma the same in every state."""

    def __init__(
        self, config: ActorConfig, latent: int, actions: int, activation: Activation, stream: Stream
    ) -> None:
        super().__init__()
        self.mean = mlp(
            latent, config.units, actions, stream, activation, "activation_first", "orthogonal", last="zero"
        )
        self.log_std = nn.Parameter(torch.full((actions,), config.log_std))
        self.log_std_min = config.log_std_min

    def forward(self, latent: Tensor, noise: Tensor | None) -> Tensor:
        """latent [..., L], standard normal noise [..., A] or None for the mean -> action [..., A]"""
        mean: Tensor = self.mean(latent)
        if noise is None:
            return torch.tanh(mean)
        return torch.tanh(mean + self.log_std.clamp_min(self.log_std_min).exp() * noise)
