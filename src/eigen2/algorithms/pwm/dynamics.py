"""Latent dynamics: z' = D(z, a), by a residual on logits or by a flow. Latents stay on the simplex."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eigen2.algorithms.pwm.config import FlowConfig, ModelConfig
from eigen2.algorithms.pwm.flow import draw_times, integrate, path_point
from eigen2.nets.dense import Stream, mlp
from eigen2.nets.simnorm import logits_of, pushed, simnorm


class MLPDynamics(nn.Module):
    """z' = SimNorm(log z + f(z, a)). f starts at zero: at first nothing is predicted to change."""

    def __init__(self, config: ModelConfig, actions: int, stream: Stream) -> None:
        super().__init__()
        self.change = mlp(
            config.latent + actions, config.units, config.latent, stream, config.activation, last="zero"
        )

    def forward(self, latent: Tensor, action: Tensor) -> Tensor:
        """[batch, L], [batch, A] -> next latent [batch, L]"""
        return simnorm(logits_of(latent) + self.change(torch.cat([latent, action], -1)))

    def draw(self, action: Tensor, stream: torch.Generator) -> None:
        """There is nothing to draw."""

    def error(
        self, latent: Tensor, action: Tensor, reached: Tensor, target: Tensor, tau: Tensor | None
    ) -> Tensor:
        """Squared error per element [..., L] of the step latent -> target, given what it reached."""
        return F.mse_loss(reached, target, reduction="none")


class FlowDynamics(nn.Module):
    """The latent's logits are carried by a velocity field v(z_tau, a, tau) with a plain linear head; SimNorm puts the
    point reached back onto the simplex.

    In logits nothing has to be cut off at zero, and one Euler substep moves like the `mlp` residual. The field sees the
    point as a latent, so that its inputs stay of order one.
    """

    def __init__(self, config: ModelConfig, actions: int, stream: Stream) -> None:
        super().__init__()
        self.flow: FlowConfig = config.flow
        self.field = mlp(
            config.latent + actions + 1, config.units, config.latent, stream, config.activation, last="zero"
        )

    def velocity(self, latent: Tensor, action: Tensor, tau: Tensor) -> Tensor:
        """Of the logits, at latent [..., L], [..., A], [..., 1] -> [..., L]"""
        v: Tensor = self.field(torch.cat([latent, action, tau], -1))
        return v

    def forward(self, latent: Tensor, action: Tensor) -> Tensor:
        def field(logits: Tensor, tau: float) -> Tensor:
            point = simnorm(logits) if tau else latent
            return self.velocity(point, action, point.new_full((*point.shape[:-1], 1), tau))

        return simnorm(integrate(field, logits_of(latent), self.flow.integrator, self.flow.substeps))

    def draw(self, action: Tensor, stream: torch.Generator) -> Tensor:
        """A time on the path for every step, given the actions [..., A]. -> [..., 1]"""
        return draw_times(action, stream)

    def error(
        self, latent: Tensor, action: Tensor, reached: Tensor, target: Tensor, tau: Tensor | None
    ) -> Tensor:
        """Squared error per element [..., L] of the velocity at the times `tau` [..., 1] on the path latent -> target, plus that of the
        point reached by integration.

        A logit of a nearly empty place moves far and means nothing, so the velocity's error counts as much as it would
        move the target on the simplex. It trains single steps; the second term trains the chain of steps, and the
        encoder towards latents that can be predicted, as it does for `mlp`.
        """
        # The path is data: without the stop-gradient the encoder could shorten it instead of the field learning it.
        assert tau is not None
        point, velocity = path_point(logits_of(latent.detach()), logits_of(target), tau)
        wrong = pushed(target, self.velocity(simnorm(point), action, tau) - velocity)
        return wrong.square() + F.mse_loss(reached, target, reduction="none")


def make_dynamics(config: ModelConfig, actions: int, stream: Stream) -> MLPDynamics | FlowDynamics:
    kind = FlowDynamics if config.dynamics == "flow" else MLPDynamics
    return kind(config, actions, stream)
