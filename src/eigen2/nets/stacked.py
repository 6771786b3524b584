"""Networks of a whole population computed together.

Parameters are a flat dict of tensors whose first axis is the agent, e.g. ``{"head.0.w": [agent, in, out]}``; one
batched matrix product serves all agents. A single agent is the same dict with a first axis of length one.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

Params = dict[str, Tensor]


def init_linear(
    params: Params, name: str, shape: tuple[int, int, int], rng: torch.Generator, gain: float = 1.0
) -> None:
    """Add a layer `[agent, in, out]` with uniform weights of deviation gain / sqrt(in) and zero bias."""
    agents, inputs, outputs = shape
    bound = gain * math.sqrt(3.0 / max(inputs, 1))
    params[f"{name}.w"] = (torch.rand(agents, inputs, outputs, generator=rng) * 2 - 1) * bound
    params[f"{name}.b"] = torch.zeros(agents, 1, outputs)


def init_norm(params: Params, name: str, agents: int, width: int) -> None:
    params[f"{name}.scale"] = torch.ones(agents, 1, width)
    params[f"{name}.shift"] = torch.zeros(agents, 1, width)


def linear(params: Params, name: str, x: Tensor) -> Tensor:
    """x `[agent, row, in]` -> `[agent, row, out]`."""
    return torch.baddbmm(params[f"{name}.b"], x, params[f"{name}.w"])


def norm(params: Params, name: str, x: Tensor) -> Tensor:
    """LayerNorm over the last axis with each agent's own scale and shift."""
    return F.layer_norm(x, x.shape[-1:]) * params[f"{name}.scale"] + params[f"{name}.shift"]


def take(params: Params, agents: Sequence[int] | Tensor | slice) -> Params:
    """The parameters of some agents, copied."""
    index = agents if isinstance(agents, slice) else torch.as_tensor(agents, dtype=torch.long)
    return {name: value.detach()[index].clone() for name, value in params.items()}


def put(params: Params, agents: Sequence[int] | slice, values: Params) -> None:
    """Overwrite the parameters of some agents in place."""
    index = agents if isinstance(agents, slice) else torch.as_tensor(agents, dtype=torch.long)
    with torch.no_grad():
        for name, value in params.items():
            value[index] = values[name].to(value.device)


def concatenate(parts: Sequence[Params]) -> Params:
    return {name: torch.cat([part[name].detach() for part in parts]) for name in parts[0]}


def agents_in(params: Params) -> int:
    return next(iter(params.values())).shape[0]


def nbytes(params: Params) -> int:
    """Of all agents together."""
    return sum(value.nbytes for value in params.values())


def distances(params: Params) -> npt.NDArray[np.float64]:
    """[agent] distance of each agent's parameters from the mean of all, as a share of the mean's length."""
    squares, length = torch.zeros(agents_in(params), dtype=torch.float64), 0.0
    for value in params.values():
        mean = value.detach().mean(dim=0, keepdim=True)
        squares += (value.detach() - mean).square().flatten(1).sum(dim=1).double().cpu()
        length += float(mean.square().sum())
    found: npt.NDArray[np.float64] = (squares / max(length, 1e-300)).sqrt().numpy()
    return found


def flatten(params: Params) -> Tensor:
    """`[agent, parameter]`, a copy."""
    return torch.cat([value.detach().reshape(value.shape[0], -1) for value in params.values()], dim=1)


def unflatten(flat: Tensor, like: Params) -> Params:
    """The inverse of `flatten`, with the names and shapes of `like`."""
    sizes = [value[0].numel() for value in like.values()]
    parts = torch.split(flat, sizes, dim=1)
    return {
        name: part.reshape(flat.shape[0], *value.shape[1:]).clone()
        for (name, value), part in zip(like.items(), parts, strict=True)
    }


def norms(values: Sequence[Tensor]) -> Tensor:
    """L2 norm per agent `[agent]` over several stacked tensors."""
    return torch.stack([value.flatten(1).square().sum(1) for value in values]).sum(0).sqrt()


def track(target: Params, online: Params, tau: float) -> None:
    """Move target networks a step of tau towards the trained ones."""
    with torch.no_grad():
        torch._foreach_lerp_(list(target.values()), [value.detach() for value in online.values()], tau)


def layer_size(value: Tensor) -> float:
    """Root mean square of one layer's weights over all agents, at least 0.1 so that fresh biases move too."""
    return max(float(value.square().mean().sqrt()), 0.1)
