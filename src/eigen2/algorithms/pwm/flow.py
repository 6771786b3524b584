"""Flow matching: a velocity field that carries one point to another in unit time, and the rules to integrate it.

On the straight path z_tau = (1 - tau) z_0 + tau z_1 the velocity is v* = z_1 - z_0 at every tau, so a field trained
to v(z_tau, tau) = v* and integrated from z_0 over tau in [0, 1] arrives at z_1.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Velocity = Callable[[Tensor, float], Tensor]
"""(point [..., n], tau) -> velocity [..., n]"""
Integrator = Literal["euler", "heun"]


def integrate(velocity: Velocity, start: Tensor, integrator: Integrator, substeps: int) -> Tensor:
    """The point reached from `start` at tau = 1. Euler has a global error of order h, Heun of order h^2; h = 1/K."""
    h = 1.0 / substeps
    point = start
    for k in range(substeps):
        slope = velocity(point, k * h)
        if integrator == "heun":
            slope = 0.5 * (slope + velocity(point + h * slope, (k + 1) * h))
        point = point + h * slope
    return point


def path_point(start: Tensor, end: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """Point and velocity of the straight path. [..., n], [..., n], tau [..., 1] -> z_tau, v*"""
    difference = end - start
    return start + tau * difference, difference


def draw_times(like: Tensor, stream: torch.Generator) -> Tensor:
    """tau in [0, 1] for every point of `like` [..., n] -> [..., 1]"""
    shape = (*like.shape[:-1], 1)
    return torch.rand(shape, generator=stream, dtype=like.dtype).to(like.device)
