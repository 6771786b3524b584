"""Actors: policies on latents. Actions are in (-1, 1) and differentiable in the weights (reparameterised noise)."""

import torch
from torch import Tensor, nn

from eigen2.algorithms.pwm.config import ActorConfig
from eigen2.algorithms.pwm.flow import integrate
from eigen2.nets.choices import Activation
from eigen2.nets.dense import Stream, mlp


class GaussianActor(nn.Module):
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


class FlowActor(nn.Module):
    """a = tanh(a_1), a_1 carried from a_0 = sigma eps by the velocity u(z, a_tau, tau) with Heun, two substeps."""

    def __init__(
        self, config: ActorConfig, latent: int, actions: int, activation: Activation, stream: Stream
    ) -> None:
        super().__init__()
        self.field = mlp(
            latent + actions + 1, config.units, actions, stream, activation, "activation_first", "orthogonal",
            last="zero",
        )  # fmt: skip
        self.log_std = nn.Parameter(torch.full((actions,), config.log_std))
        self.log_std_min = config.log_std_min

    def forward(self, latent: Tensor, noise: Tensor | None) -> Tensor:
        """latent [..., L], standard normal noise [..., A] or None to start from zero -> action [..., A]"""

        def velocity(point: Tensor, tau: float) -> Tensor:
            time = point.new_full((*point.shape[:-1], 1), tau)
            u: Tensor = self.field(torch.cat([latent, point, time], -1))
            return u

        start = torch.zeros_like(latent[..., : len(self.log_std)])
        if noise is not None:
            start = self.log_std.clamp_min(self.log_std_min).exp() * noise
        return torch.tanh(integrate(velocity, start, "heun", 2))


Actor = GaussianActor | FlowActor


def make_actor(
    config: ActorConfig, latent: int, actions: int, activation: Activation, stream: Stream
) -> Actor:
    kind = FlowActor if config.policy == "flow" else GaussianActor
    return kind(config, latent, actions, activation, stream)
