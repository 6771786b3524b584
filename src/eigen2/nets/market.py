"""Actor and critic for markets: weights shared between symbols, symbols joined by pooling.

With e_i the embedding of symbol i, m the mean over known symbols, p_i its position and g the account:

    h_i = silu(norm(A (e_i - m) + B m + C p_i + D g))
    k_i = silu(norm(E h_i + F mean_j h_j))
    out_i = G k_i

Renaming or reordering symbols reorders the outputs and changes nothing else. The critic has the same shape, sees the
symbol's own action beside its position, and gives one value per symbol: the worth of that symbol's own contribution.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from eigen2.nets.stacked import Params, init_linear, init_norm, linear, norm

POSITION = 4
"""Numbers per symbol in a trading observation."""
ACCOUNT = (0, 1, 4)
"""Columns of the account that are looked at: cash, exposure, settlement. Equity since the start and the share of the
episode left take values in a long backtest that no training window shows."""


def init_head(
    params: Params,
    agents: int,
    hidden: int,
    inputs: int,
    outputs: int,
    rng: torch.Generator,
    gain: float = 1.0,
) -> None:
    """`inputs` per symbol beside the embedding; `outputs` per symbol, whose first weights are scaled by `gain`."""
    init_linear(params, "head.centred", (agents, hidden, hidden), rng)
    init_linear(params, "head.mean", (agents, hidden, hidden), rng)
    init_linear(params, "head.own", (agents, inputs, hidden), rng)
    init_linear(params, "head.account", (agents, len(ACCOUNT), hidden), rng)
    init_norm(params, "head.norm1", agents, hidden)
    init_linear(params, "head.local", (agents, hidden, hidden), rng)
    init_linear(params, "head.pool", (agents, hidden, hidden), rng)
    init_norm(params, "head.norm2", agents, hidden)
    init_linear(params, "head.out", (agents, hidden, outputs), rng, gain)


def init_cash(params: Params, agents: int, hidden: int, rng: torch.Generator) -> None:
    init_linear(params, "head.cash", (agents, hidden, 1), rng)


def project(params: Params, embedding: Tensor, mask: Tensor, tradable: Tensor) -> Tensor:
    """embedding `[agent, day, symbol, hidden]`, mask `[day, symbol]` or `[agent, day, symbol]` -> A (e_i - m) + B m of the
    tradable symbols (ascending) `[agent, day, tradable, hidden]`: all of the first layer that does not depend on the
    portfolio."""
    mean = mean_of_known(embedding, mask)
    return project_centred(params, embedding, mean, tradable) + linear(params, "head.mean", mean).unsqueeze(2)


def mean_of_known(embedding: Tensor, mask: Tensor) -> Tensor:
    """m `[agent, day, hidden]`"""
    weight = mask.to(embedding.dtype)
    weight = weight / weight.sum(-1, keepdim=True).clamp(min=1.0)
    return (embedding * weight.unsqueeze(-1)).sum(2)


def project_centred(params: Params, embedding: Tensor, mean: Tensor, tradable: Tensor) -> Tensor:
    """A (e_i - m)"""
    chosen = embedding if len(tradable) == embedding.shape[2] else embedding[:, :, tradable]
    centred = chosen - mean.unsqueeze(2)
    flat = centred.reshape(len(centred), -1, centred.shape[-1])
    return linear(params, "head.centred", flat).view(centred.shape)


def head(params: Params, projected: Tensor, own: Tensor, account: Tensor) -> tuple[Tensor, Tensor]:
    """projected `[agent, row, tradable, hidden]`, own `[agent, row, tradable, inputs]`, account `[agent, row, 5]`
    -> outputs `[agent, row, tradable, outputs]` and the pooled last layer `[agent, row, hidden]`."""
    agents, rows, symbols, hidden = projected.shape
    flat = (agents, rows * symbols, hidden)
    x = projected + linear(params, "head.own", own.reshape(agents, rows * symbols, -1)).view(projected.shape)
    x = x + linear(params, "head.account", account[..., ACCOUNT]).unsqueeze(2)
    h = F.silu(norm(params, "head.norm1", x.view(flat)))
    k = linear(params, "head.local", h).view(projected.shape)
    pooled = linear(params, "head.pool", h.view(projected.shape).mean(2))
    k = F.silu(norm(params, "head.norm2", (k + pooled.unsqueeze(2)).view(flat)))
    out = linear(params, "head.out", k).view(agents, rows, symbols, -1)
    return out, k.view(projected.shape).mean(2)
