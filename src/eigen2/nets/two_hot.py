"""Reward codes: how a reward becomes a training target and how a prediction becomes a reward again.

Loss and decoder of a code live in one class, because a head trained by one rule and read by another predicts nothing.
"""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


def symlog(x: Tensor) -> Tensor:
    """sign(x) log(1 + |x|)"""
    return torch.sign(x) * torch.log1p(x.abs())


def symexp(x: Tensor) -> Tensor:
    """sign(x) (exp|x| - 1), the inverse of symlog."""
    return torch.sign(x) * torch.expm1(x.abs())


class RewardCode(Protocol):
    """`size` network outputs stand for one reward."""

    size: int

    def loss(self, outputs: Tensor, reward: Tensor) -> Tensor:
        """outputs [..., size], reward [...] -> loss per element [...]; least when decode(outputs) = reward."""
        ...

    def decode(self, outputs: Tensor) -> Tensor:
        """outputs [..., size] -> reward [...], differentiable."""
        ...

    def encode(self, reward: Tensor) -> Tensor:
        """reward [...] -> outputs [..., size] with decode(outputs) = reward."""
        ...


class ScalarCode:
    """One output, squared error."""

    size = 1

    def loss(self, outputs: Tensor, reward: Tensor) -> Tensor:
        return (outputs.squeeze(-1) - reward).square()

    def decode(self, outputs: Tensor) -> Tensor:
        return outputs.squeeze(-1)

    def encode(self, reward: Tensor) -> Tensor:
        return reward.unsqueeze(-1)


class TwoHotCode:
    """Logits over evenly spaced bins of symlog(reward), trained by cross-entropy against the two nearest bins.

    decode = symexp(sum_i softmax(logits)_i bin_i), the same expectation the two-hot target encodes.
    """

    def __init__(self, bins: int = 101, low: float = -10.0, high: float = 10.0) -> None:
        self.size = bins
        self.low = low
        self.high = high
        self.bins = torch.linspace(low, high, bins)

    def target(self, reward: Tensor) -> Tensor:
        """The distribution on two neighbouring bins whose mean is symlog(reward). [...] -> [..., bins]"""
        step = (self.high - self.low) / (self.size - 1)
        position = ((symlog(reward) - self.low) / step).clamp(0, self.size - 1)
        lower = position.floor().clamp(max=self.size - 2)
        weight = (position - lower).unsqueeze(-1)
        index = lower.long().unsqueeze(-1)
        target = torch.zeros(*reward.shape, self.size, dtype=reward.dtype, device=reward.device)
        return target.scatter_(-1, index, 1 - weight).scatter_(-1, index + 1, weight)

    def loss(self, outputs: Tensor, reward: Tensor) -> Tensor:
        return -(self.target(reward) * F.log_softmax(outputs, -1)).sum(-1)

    def decode(self, outputs: Tensor) -> Tensor:
        return symexp(outputs.softmax(-1) @ self.bins.to(outputs))

    def encode(self, reward: Tensor) -> Tensor:
        return torch.log(self.target(reward).clamp_min(1e-20))
