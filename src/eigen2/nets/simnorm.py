"""SimNorm: a latent made of small probability distributions.

A latent of size L is L / G groups of G numbers, each group a point on the simplex (>= 0, sum 1). Group g holds the
elements g, g + L/G, g + 2 L/G, ...: neighbours in memory belong to different groups, so the softmax runs over a
strided axis and vectorises over the groups, which is faster on a CPU than a softmax over a last axis of 8.
"""

import torch
from torch import Tensor

from eigen2.nets.choices import GROUP

LOG_FLOOR = 1e-5


def groups(latent: Tensor, group: int = GROUP) -> Tensor:
    """[..., L] -> [..., group, L / group]; every column is one simplex."""
    return latent.reshape(*latent.shape[:-1], group, latent.shape[-1] // group)


def simnorm(logits: Tensor, group: int = GROUP) -> Tensor:
    """Softmax of every group. [..., L] -> [..., L]"""
    return groups(logits, group).softmax(-2).flatten(-2)


def logits_of(latent: Tensor) -> Tensor:
    """Logits that simnorm maps back to the latent, up to the floor that keeps the logarithm finite. [..., L]"""
    return torch.log(latent + LOG_FLOOR)


def centred(latent: Tensor, group: int = GROUP) -> Tensor:
    """What plain linear heads should be fed: G z - 1, mean zero and of order one. [..., L]

    Raw simplex numbers vary by a twentieth around an eighth; a linear layer on them needs weights of about twenty, which
    Adam at a rate of 1e-3 takes tens of thousands of steps to grow.
    """
    return group * latent - 1.0


def pushed(latent: Tensor, change: Tensor, group: int = GROUP) -> Tensor:
    """How a small change of the logits moves the latent: the derivative of simnorm. [..., L], [..., L] -> [..., L]"""
    share, step = groups(latent, group), groups(change, group)
    return (share * (step - (share * step).sum(-2, keepdim=True))).flatten(-2)
