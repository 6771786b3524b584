"""Imagined rollouts: the actor acting inside the world model, differentiable from the return to its weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eigen2.algorithms.pwm.actor import Actor
from eigen2.algorithms.pwm.critic import ValueEnsemble


class World(Protocol):
    """What imagination needs of a world model."""

    def step(self, latent: Tensor, action: Tensor) -> Tensor:
        """[batch, L], [batch, A] -> next latent [batch, L]"""
        ...

    def reward(self, latent: Tensor, action: Tensor) -> Tensor:
        """[..., L], [..., A] -> predicted scaled reward [...]"""
        ...

    def continues(self, latent: Tensor) -> Tensor:
        """Probability [...] that the episode continues after arriving at latent [..., L]."""
        ...


@dataclass(frozen=True)
class ImaginedRollout:
    """H steps from `batch` start latents."""

    latent: list[Tensor]
    """H + 1 of [batch, L]"""
    reward: Tensor
    """[H, batch]"""
    discount: Tensor
    """gamma x probability to continue [H, batch]"""


def imagine(model: World, actor: Actor, start: Tensor, noise: Tensor, gamma: float) -> ImaginedRollout:
    """start [batch, L], noise [H, batch, A].

    The actor sees detached latents: its weights get gradient through the actions they cause, not through the chain
    of their own inputs, whose derivatives explode with the horizon.
    """
    latents, actions = [start], []
    for eps in noise:
        action = actor(latents[-1].detach(), eps)
        actions.append(action)
        latents.append(model.step(latents[-1], action))
    reward = model.reward(torch.stack(latents[:-1]), torch.stack(actions))
    return ImaginedRollout(latents, reward, gamma * model.continues(torch.stack(latents[1:])))


def returns(rollout: ImaginedRollout, critic: ValueEnsemble) -> Tensor:
    """sum_t (prod_{s<t} d_s) r_t + (prod_s d_s) min_k V_k(z_H). -> [batch]"""
    weight = torch.cumprod(rollout.discount, 0)
    before = torch.cat([torch.ones_like(weight[:1]), weight[:-1]])
    return (before * rollout.reward).sum(0) + weight[-1] * critic.lowest(rollout.latent[-1])


def joined(rollouts: Sequence[ImaginedRollout]) -> ImaginedRollout:
    """Rollouts of parts of a batch as one of all of it."""
    latent = [torch.cat(parts) for parts in zip(*(rollout.latent for rollout in rollouts), strict=True)]
    reward, discount = (
        torch.cat([getattr(r, name) for r in rollouts], dim=1) for name in ("reward", "discount")
    )
    return ImaginedRollout(latent, reward, discount)
