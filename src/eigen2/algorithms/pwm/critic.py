"""Values of latents: an ensemble computed in one batched product per layer, and TD(lambda) targets."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eigen2.nets.choices import Activation
from eigen2.nets.dense import Stream, activate


class ValueEnsemble(nn.Module):
    """M independent networks, Linear -> activation -> LayerNorm blocks and a linear head that starts at zero.

    The heads are scaled by 1 / (1 - gamma), the length of an endless return, so that they start learning numbers of
    the size of a reward.
    """

    def __init__(
        self,
        latent: int,
        units: Sequence[int],
        members: int,
        gamma: float,
        activation: Activation,
        stream: Stream,
    ) -> None:
        super().__init__()
        self.activation: Activation = activation
        self.scale = 1.0 / (1.0 - gamma)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        sizes = [latent, *units]
        device = "meta" if stream is None else "cpu"
        for inputs, outputs in zip(sizes[:-1], sizes[1:], strict=True):
            weight = torch.empty(members, inputs, outputs, device=device)
            for member in weight:
                nn.init.orthogonal_(member, gain=2**0.5, generator=stream)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(members, 1, outputs)))
        self.weights.append(nn.Parameter(torch.zeros(members, sizes[-1], 1)))
        self.biases.append(nn.Parameter(torch.zeros(members, 1, 1)))

    def unscaled(self, latent: Tensor) -> Tensor:
        """[..., L] -> the heads' own numbers, value x (1 - gamma) [M, ...]"""
        batch = latent.shape[:-1]
        members = len(self.biases[0])
        x = latent.reshape(1, -1, latent.shape[-1]).expand(members, -1, -1)
        # The norm has no gain and offset of its own: the next linear layer can express both, at no cost.
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = activate(torch.baddbmm(bias, x, weight), self.activation)
            # Given as ones and zeros, because a CPU's norm without them takes twice as long.
            width = x.shape[-1]
            x = F.layer_norm(x, (width,), x.new_ones(width), x.new_zeros(width))
        return torch.baddbmm(self.biases[-1], x, self.weights[-1]).reshape(members, *batch)

    def forward(self, latent: Tensor) -> Tensor:
        """[..., L] -> values of all members [M, ...]"""
        return self.scale * self.unscaled(latent)

    def lowest(self, latent: Tensor) -> Tensor:
        """[..., L] -> least value of the members [...]"""
        return self.scale * self.unscaled(latent).amin(0)

    def loss(self, latent: Tensor, target: Tensor) -> Tensor:
        """Mean squared error of all members in the heads' own scale. [batch, L], [batch] -> []"""
        return (self.unscaled(latent) - target / self.scale).square().mean()


def td_lambda(reward: Tensor, discount: Tensor, value: Tensor, trace: float) -> Tensor:
    """G_t = r_t + d_t ((1 - lambda) V_{t+1} + lambda G_{t+1}), G_H = V_H.

    reward and discount [H, batch], value of the states arrived at [H, batch] -> targets [H, batch]
    """
    targets = torch.empty_like(reward)
    following = value[-1]
    for t in reversed(range(len(reward))):
        following = reward[t] + discount[t] * ((1.0 - trace) * value[t] + trace * following)
        targets[t] = following
    return targets
