"""Improving a behaviour inside a world model: one actor step per imagined rollout, then its critics."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from eigen2.algorithms.contract import Metrics
from eigen2.algorithms.pwm.agent import Behaviour, follow
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.critic import td_lambda
from eigen2.algorithms.pwm.imagination import ImaginedRollout, World, imagine, joined, returns
from eigen2.algorithms.pwm.optimiser import Optimiser
from eigen2.nets.held import held_bytes
from eigen2.nets.micro_batches import Gradients, MicroBatches, added_up


@dataclass(frozen=True)
class _Improvement:
    """What an imagined rollout says about the actor."""

    rollout: ImaginedRollout
    values: Tensor
    deviation: float
    loss: Tensor
    gradients: Gradients


class PolicyLearner:
    """Owns the optimisers of actor and critics; the behaviour's weights change in place."""

    def __init__(
        self, config: PWMConfig, behaviour: Behaviour, micro_batches: MicroBatches | None = None
    ) -> None:
        self.config, self.behaviour = config, behaviour
        self.micro_batches = micro_batches or MicroBatches()
        actor, critic = config.actor, config.critic
        self.optimisers = {
            "actor": Optimiser(
                "actor", behaviour.actor, actor.learning_rate, actor.clip, (actor.beta1, actor.beta2)
            ),
            "critic": Optimiser("critic", behaviour.critic, critic.learning_rate, critic.clip),
        }
        self.return_deviation = 0.0
        """Moving deviation of imagined returns, which the actor's loss is divided by; 0 before the first."""

    def improve(
        self, world: World, start: Tensor, noise: Tensor, order: torch.Generator, lr_scale: float
    ) -> Metrics:
        """From latents [batch, L], with noise [H, batch, A], at `lr_scale` of the learning rates."""

        def attempt(parts: list[slice]) -> _Improvement:
            return self._improvement(world, start, noise, parts)

        found = self.micro_batches.work("actor update", len(start), attempt)
        self.return_deviation = found.deviation
        norm = self.optimisers["actor"].step(found.loss, found.gradients, lr_scale)
        metrics = {"imagined_return": found.values.mean().item(), "actor_gradient": norm}
        return metrics | self._fit_critic(found.rollout, order, lr_scale)

    @property
    def nbytes(self) -> int:
        """Of the optimisers."""
        return held_bytes(list(self.optimisers.values()))

    def state_dict(self) -> dict[str, Any]:
        return {
            "return_deviation": self.return_deviation,
            **{name: optimiser.state_dict() for name, optimiser in self.optimisers.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.return_deviation = float(state["return_deviation"])
        for name, optimiser in self.optimisers.items():
            optimiser.load_state_dict(state[name])

    def _improvement(self, world: World, start: Tensor, noise: Tensor, parts: list[slice]) -> _Improvement:
        """The actor's gradient. Its loss is divided by a deviation over all rows, which must be known before the gradient
        of a part is."""
        if len(parts) == 1:
            rollout = imagine(world, self.behaviour.actor, start, noise, self.config.gamma)
            values = returns(rollout, self.behaviour.target_critic)
            deviation = self._followed(values.detach())
            loss = -values.mean() / max(deviation, 1e-2)
            gradients = self.optimisers["actor"].gradients(loss)
            return _Improvement(rollout, values.detach(), deviation, loss.detach(), gradients)
        with torch.no_grad():
            rollouts = [
                imagine(world, self.behaviour.actor, start[rows], noise[:, rows], self.config.gamma)
                for rows in parts
            ]
            values = torch.cat([returns(rollout, self.behaviour.target_critic) for rollout in rollouts])
        deviation = self._followed(values)

        def compute(rows: slice) -> tuple[Tensor, Gradients]:
            rollout = imagine(world, self.behaviour.actor, start[rows], noise[:, rows], self.config.gamma)
            some = -returns(rollout, self.behaviour.target_critic).mean() / max(deviation, 1e-2)
            return some, self.optimisers["actor"].gradients(some)

        loss, gradients = added_up(parts, compute)
        return _Improvement(joined(rollouts), values, deviation, loss, gradients)

    def _followed(self, values: Tensor) -> float:
        """The moving deviation after these returns."""
        deviation = float(values.std())
        first = self.return_deviation == 0.0
        return deviation if first else 0.99 * self.return_deviation + 0.01 * deviation

    def _fit_critic(self, rollout: ImaginedRollout, stream: torch.Generator, lr_scale: float) -> Metrics:
        config, behaviour = self.config.critic, self.behaviour
        latent = torch.stack(rollout.latent).detach()
        with torch.no_grad():
            value = behaviour.target_critic.lowest(latent[1:])
            target = td_lambda(
                rollout.reward.detach(), rollout.discount.detach(), value, config.trace
            ).flatten()
        points = latent[:-1].flatten(0, 1)
        for _ in range(config.epochs):
            order = torch.randperm(len(points), generator=stream).to(points.device)
            for part in order.chunk(config.minibatches):
                loss, gradients = self.micro_batches.gradients(
                    "critic update", len(part), partial(self._critic_gradients, points, target, part)
                )
                norm = self.optimisers["critic"].step(loss, gradients, lr_scale)
        follow(behaviour.target_critic, behaviour.critic, config.target_rate)
        return {"critic_loss": loss.item(), "critic_gradient": norm, "value": target.mean().item()}

    def _critic_gradients(
        self, points: Tensor, target: Tensor, part: Tensor, rows: slice
    ) -> tuple[Tensor, Gradients]:
        loss = self.behaviour.critic.loss(points[part[rows]], target[part[rows]])
        return loss, self.optimisers["critic"].gradients(loss)
