"""Gradient learning of several agents at once: DDPG with the improvements of TD3.

For each agent, with twin critics Q1, Q2, target networks ' and smoothing noise e:

    y      = R_n + gamma^n * min(Q1', Q2')(s_n, pi'(s_n) + e)
    critic : minimise (Q1 - y)^2 + (Q2 - y)^2
    actor  : maximise mean over values of Q1(s, pi(s)), every `policy_delay` steps

On markets Q has one value per symbol, trained on that symbol's own contribution; elsewhere it has one. The twins are
stacked behind each other: agent i owns critics i and agents + i. Without such updates (`gradient_steps` 0) there are no
critics: the actors follow the direct gradient alone.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.task import DirectLoss, ERLTask, LearnerBatch
from eigen2.errors import DamagedStateError
from eigen2.nets.micro_batches import Gradients, MicroBatches
from eigen2.nets.stacked import Params, agents_in, nbytes, norms, put, take, track
from eigen2.replay import Replay


class Learners:
    """Actors, critics, targets and optimiser moments of `agents` learners, stacked."""

    def __init__(self, task: ERLTask, config: ERLConfig, actor: Params, rng: torch.Generator) -> None:
        agents = agents_in(actor)
        self.task, self.config, self.agents = task, config, agents
        self.actor = {name: value.to(task.device).clone() for name, value in actor.items()}
        critic = task.init_critic(2 * agents, rng) if config.gradient_steps else {}
        self.critic = {name: value.to(task.device) for name, value in critic.items()}
        self.actor_target = take(self.actor, slice(None))
        self.critic_target = take(self.critic, slice(None))
        for value in (*self.actor.values(), *self.critic.values()):
            value.requires_grad_(True)
        self.actor_optimiser = torch.optim.Adam(list(self.actor.values()), lr=config.actor_lr, fused=True)
        trained = {"params": list(self.critic.values())}
        self.critic_optimiser = torch.optim.Adam([trained], lr=config.critic_lr, fused=True)
        self.direct_optimiser = torch.optim.Adam(list(self.actor.values()), lr=config.direct_lr, fused=True)
        self.updates = 0
        self.micro_batches = MicroBatches()

    def train(
        self,
        batches: Callable[[], LearnerBatch],
        steps: int,
        rng: torch.Generator,
        progress: Callable[[int], None],
    ) -> dict[str, float]:
        """Take `steps` updates, at least one; returns mean losses."""
        critic_loss = torch.zeros(())
        actor_loss = torch.zeros(())
        for done in range(1, steps + 1):
            batch = batches()
            critic_loss = critic_loss + self._update_critic(batch, rng)
            self.updates += 1
            if self.updates % self.config.policy_delay == 0:
                actor_loss = actor_loss + self._update_actor(batch)
                track(self.actor_target, self.actor, self.config.tau)
                track(self.critic_target, self.critic, self.config.tau)
            progress(done)
        self._require_finite()
        actor_steps = max(steps // self.config.policy_delay, 1)
        return {
            "critic_loss": float(critic_loss) / steps,
            "actor_loss": float(actor_loss) / actor_steps,
        }

    def follow(self, direct: DirectLoss, replay: Replay, progress: Callable[[int], None]) -> float:
        """Steps along the direct gradient; returns the mean loss."""
        total = 0.0
        for done in range(1, self.config.direct_steps + 1):
            drawn = direct.draw(replay, self.config.runs, direct.days)
            loss = self._follow_once(direct, drawn)
            total += float(loss.mean())
            progress(done)
        track(self.actor_target, self.actor, 1.0)
        self._require_finite()
        return total / self.config.direct_steps

    def _follow_once(self, direct: DirectLoss, drawn: Any) -> Tensor:
        def compute(runs: slice) -> tuple[Tensor, Gradients]:
            return self._differentiated(direct.loss(self.actor, drawn, runs), self.actor)

        loss, gradients = self.micro_batches.gradients("direct gradient", self.config.runs, compute)
        self._step(self.direct_optimiser, gradients, self.actor, "actor")
        return loss

    def reset(self, slots: list[int], actors: Params) -> None:
        """Restart some learners from other actors: targets follow, their momentum starts anew, critics stay.

        Adam counts the steps of all learners together, so it takes a second moment of zero for that of very small gradients:
        the first steps would be several times the learning rate. So the second moment stays.
        """
        put(self.actor, slots, actors)
        put(self.actor_target, slots, actors)
        for optimiser in (self.actor_optimiser, self.direct_optimiser):
            for state in optimiser.state.values():
                state["exp_avg"][slots] = 0.0

    def inherit(self, slots: list[int], parents: list[int], actors: Params) -> None:
        """Restart some learners as children: with `actors` of their own, and the critics and moments of their parents."""
        put(self.actor, slots, actors)
        put(self.actor_target, slots, actors)
        to = [*slots, *(self.agents + slot for slot in slots)]
        of = [*parents, *(self.agents + parent for parent in parents)]
        for critics in (self.critic, self.critic_target):
            put(critics, to, take(critics, of))
        _copy_moments(self.critic_optimiser, to, of)
        _copy_moments(self.actor_optimiser, slots, parents)
        _copy_moments(self.direct_optimiser, slots, parents)

    def _update_critic(self, batch: LearnerBatch, rng: torch.Generator) -> Tensor:
        noise = self._smoothing((self.agents, *batch.action.shape), rng)

        def compute(rows: slice) -> tuple[Tensor, Gradients]:
            some = batch.part(rows)
            target = self._target(some, None if noise is None else noise[:, rows])
            values = self.task.value(self.critic, some.state, some.action.unsqueeze(0))
            loss = (values - torch.cat([target, target])).square().flatten(1).mean(1)
            return self._differentiated(loss, self.critic)

        loss, gradients = self.micro_batches.gradients("critic update", len(batch.action), compute)
        self._step(self.critic_optimiser, gradients, self.critic, "critic")
        return loss.mean()

    def _smoothing(self, shape: tuple[int, ...], rng: torch.Generator) -> Tensor | None:
        """Noise for the target's actions, drawn for the whole batch at once."""
        if not self.config.target_noise:
            return None
        bound = 2.5 * self.config.target_noise
        return torch.randn(shape, generator=rng).mul_(self.config.target_noise).clamp_(-bound, bound)

    @torch.no_grad()
    def _target(self, batch: LearnerBatch, noise: Tensor | None) -> Tensor:
        action = self.task.squash(self.task.policy(self.actor_target, batch.next_state))
        if noise is not None:
            action = self.task.smooth(action, noise.to(action.device))
        following = self.task.value(self.critic_target, batch.next_state, torch.cat([action, action]))
        return batch.reward + batch.discount * torch.minimum(*following.chunk(2))

    def _update_actor(self, batch: LearnerBatch) -> Tensor:
        first = {name: value[: self.agents].detach() for name, value in self.critic.items()}

        def compute(rows: slice) -> tuple[Tensor, Gradients]:
            state = batch.part(rows).state
            raw = self.task.policy(self.actor, state)
            value = self.task.value(first, state, self.task.squash(raw))
            loss = -value.flatten(1).mean(1) + self.config.action_penalty * raw.square().flatten(1).mean(1)
            return self._differentiated(loss, self.actor)

        loss, gradients = self.micro_batches.gradients("actor update", len(batch.action), compute)
        self._step(self.actor_optimiser, gradients, self.actor, "actor")
        return loss.mean()

    @staticmethod
    def _differentiated(loss: Tensor, params: Params) -> tuple[Tensor, Gradients]:
        """Losses `[agent]` and the gradients of their sum: agents do not see each other."""
        return loss, torch.autograd.grad(loss.sum(), list(params.values()))

    def _step(
        self, optimiser: torch.optim.Optimizer, gradients: Gradients, params: Params, network: str
    ) -> None:
        norm = norms(gradients)
        if not torch.isfinite(norm).all():
            row = int(torch.nonzero(~torch.isfinite(norm))[0])
            sizes = [float(g[row].nan_to_num(nan=torch.inf).abs().max()) for g in gradients]
            bad = list(params)[sizes.index(max(sizes))]
            raise DamagedStateError(
                f"The gradient of {network} tensor {bad} of learner {row % self.agents} is not finite at update {self.updates}; "
                "the run stops here and its last checkpoint is good. Lower the learning rates or check the data."
            )
        scale = (self.config.clip / norm.clamp(min=self.config.clip)).to(gradients[0].dtype)
        for value, gradient in zip(params.values(), gradients, strict=True):
            value.grad = gradient * scale.view(-1, *([1] * (gradient.ndim - 1)))
        optimiser.step()

    def _require_finite(self) -> None:
        for network, params in (("actor", self.actor), ("critic", self.critic)):
            for name, value in params.items():
                finite = torch.isfinite(value).flatten(1).all(1)
                if not finite.all():
                    agent = int(torch.nonzero(~finite)[0]) % self.agents
                    raise DamagedStateError(
                        f"The {network} tensor {name} of learner {agent} is not finite after update {self.updates}; "
                        "the run stops here and its last checkpoint is good."
                    )

    def owners(self) -> dict[str, int]:
        """Bytes held, by name."""
        optimisers = (self.actor_optimiser, self.critic_optimiser, self.direct_optimiser)
        return {
            "learner_actors": nbytes(self.actor) + nbytes(self.actor_target),
            "learner_critics": nbytes(self.critic) + nbytes(self.critic_target),
            "optimiser": sum(
                nbytes(moments) for optimiser in optimisers for moments in optimiser.state.values()
            ),
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "actor": take(self.actor, slice(None)),
            "critic": take(self.critic, slice(None)),
            "actor_target": take(self.actor_target, slice(None)),
            "critic_target": take(self.critic_target, slice(None)),
            "actor_moments": _moments(self.actor_optimiser, self.actor),
            "direct_moments": _moments(self.direct_optimiser, self.actor),
            "critic_moments": _moments(self.critic_optimiser, self.critic),
            "updates": self.updates,
            "parts": self.micro_batches.parts,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("actor", "critic", "actor_target", "critic_target"):
            put(getattr(self, name), slice(None), state[name])
        _load_moments(self.actor_optimiser, self.actor, state["actor_moments"])
        _load_moments(self.direct_optimiser, self.actor, state["direct_moments"])
        _load_moments(self.critic_optimiser, self.critic, state["critic_moments"])
        self.updates = int(state["updates"])
        self.micro_batches.parts = int(state["parts"])


def _copy_moments(optimiser: torch.optim.Optimizer, to: list[int], of: list[int]) -> None:
    """Adam's moments of the rows `of` become those of the rows `to`."""
    for state in optimiser.state.values():
        for moment in (state["exp_avg"], state["exp_avg_sq"]):
            moment[to] = moment[of]


def _moments(optimiser: torch.optim.Optimizer, params: Params) -> dict[str, Any]:
    """Adam's moments by parameter name; empty before the first step."""
    return {
        name: {key: item.clone() for key, item in optimiser.state[value].items()}
        for name, value in params.items()
        if value in optimiser.state
    }


def _load_moments(optimiser: torch.optim.Optimizer, params: Params, moments: dict[str, Any]) -> None:
    for name, state in moments.items():
        value = params[name]
        optimiser.state[value] = {key: item.to(value.device, copy=True) for key, item in state.items()}
