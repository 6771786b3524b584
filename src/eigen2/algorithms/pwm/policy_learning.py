"""Improving a behaviour inside a world model: one actor step per imagined rollout, then its critics."""

from typing import Any

import torch
from torch import Tensor

from eigen2.algorithms.contract import Metrics
from eigen2.algorithms.pwm.agent import Behaviour, follow
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.critic import td_lambda
from eigen2.algorithms.pwm.imagination import ImaginedRollout, World, imagine, returns
from eigen2.algorithms.pwm.optimiser import Optimiser
from eigen2.nets.held import held_bytes


class PolicyLearner:
    """Owns the optimisers of actor and critics; the behaviour's weights change in place."""

    def __init__(self, config: PWMConfig, behaviour: Behaviour) -> None:
        self.config, self.behaviour = config, behaviour
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
        rollout = imagine(world, self.behaviour.actor, start, noise, self.config.gamma)
        return self._improve_actor(rollout, lr_scale) | self._fit_critic(rollout, order, lr_scale)

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

    def _improve_actor(self, rollout: ImaginedRollout, lr_scale: float) -> Metrics:
        values = returns(rollout, self.behaviour.target_critic)
        deviation = float(values.detach().std())
        first = self.return_deviation == 0.0
        self.return_deviation = deviation if first else 0.99 * self.return_deviation + 0.01 * deviation
        loss = -values.mean() / max(self.return_deviation, 1e-2)
        norm = self.optimisers["actor"].step(loss, lr_scale)
        follow(self.behaviour.actor_ema, self.behaviour.actor, 1.0 - self.config.actor_ema)
        return {"imagined_return": values.detach().mean().item(), "actor_gradient": norm}

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
                loss = behaviour.critic.loss(points[part], target[part])
                norm = self.optimisers["critic"].step(loss, lr_scale)
        follow(behaviour.target_critic, behaviour.critic, config.target_rate)
        return {"critic_loss": loss.item(), "critic_gradient": norm, "value": target.mean().item()}
