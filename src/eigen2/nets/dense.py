"""Dense blocks whose weights come from a named stream, never from the global generator."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eigen2.nets.choices import Activation

Weights = Literal["trunc_normal", "orthogonal", "zero"]
Stream = torch.Generator | None
"""Where weights come from; None builds layers without storage, to count them."""
Order = Literal["norm_first", "activation_first"]


def activate(x: Tensor, activation: Activation) -> Tensor:
    return F.silu(x) if activation == "silu" else F.mish(x)


def linear(inputs: int, outputs: int, stream: Stream, weights: Weights = "trunc_normal") -> nn.Linear:
    """A linear layer with zero bias. trunc_normal: sd 0.02; orthogonal: gain sqrt 2; zero: starts as a constant."""
    # Built without storage first, because nn.Linear's own initialisation reads the global generator.
    layer = nn.Linear(inputs, outputs, device="meta")
    if stream is None:
        return layer
    layer = layer.to_empty(device="cpu")
    nn.init.zeros_(layer.bias)
    if weights == "trunc_normal":
        nn.init.trunc_normal_(layer.weight, std=0.02, generator=stream)
    elif weights == "orthogonal":
        nn.init.orthogonal_(layer.weight, gain=2**0.5, generator=stream)
    else:
        nn.init.zeros_(layer.weight)
    return layer


class DenseBlock(nn.Module):
    """Linear -> LayerNorm -> activation, or Linear -> activation -> LayerNorm. [..., inputs] -> [..., outputs]"""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        stream: Stream,
        activation: Activation = "silu",
        order: Order = "norm_first",
        weights: Weights = "trunc_normal",
    ) -> None:
        super().__init__()
        self.linear = linear(inputs, outputs, stream, weights)
        self.norm = nn.LayerNorm(outputs)
        self.activation: Activation = activation
        self.order: Order = order

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        if self.order == "norm_first":
            return activate(self.norm(y), self.activation)
        normed: Tensor = self.norm(activate(y, self.activation))
        return normed


def mlp(
    inputs: int,
    units: Sequence[int],
    outputs: int,
    stream: Stream,
    activation: Activation = "silu",
    order: Order = "norm_first",
    weights: Weights = "trunc_normal",
    last: Weights = "trunc_normal",
) -> nn.Sequential:
    """Dense blocks and a plain linear head. [..., inputs] -> [..., outputs]"""
    sizes = [inputs, *units]
    blocks: list[nn.Module] = [
        DenseBlock(a, b, stream, activation, order, weights)
        for a, b in zip(sizes[:-1], sizes[1:], strict=True)
    ]
    return nn.Sequential(*blocks, linear(sizes[-1], outputs, stream, last))


def parameter_count(*modules: nn.Module) -> int:
    return sum(p.numel() for module in modules for p in module.parameters())
