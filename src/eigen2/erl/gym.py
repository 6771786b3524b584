"""ERL on any Gymnasium environment with continuous actions: MLP actors and scalar critics."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from eigen2 import seeds
from eigen2.envs.config import GymConfig
from eigen2.envs.gym import GymBatch
from eigen2.erl.config import ERLConfig
from eigen2.erl.task import Batch, Episodes, Rollout, Transitions
from eigen2.errors import ConfigError
from eigen2.evaluation.control import Act
from eigen2.nets.stacked import Params, agents_in, init_linear, linear
from eigen2.replay import Field, Replay, Schema

MOST_STEPS = 10_000
"""Episodes of an environment without a time limit of its own must end within this many steps."""


class GymTask:
    def __init__(self, env: GymConfig, alg: ERLConfig, seed: int, device: torch.device) -> None:
        self.env, self.alg, self.seed, self.device = env, alg, seed, device
        self._batches: dict[int, GymBatch] = {}
        first = self._batch(1)
        self.observations, self.actions = first.observation_size, first.action_size

    # Networks

    def init_actor(self, agents: int, rng: torch.Generator) -> Params:
        return _init_actor(agents, self.observations, self.alg.hidden, self.actions, rng)

    def init_critic(self, agents: int, rng: torch.Generator) -> Params:
        return _init_critic(agents, self.observations + self.actions, self.alg.hidden, rng)

    def policy(self, actor: Params, state: Tensor) -> Tensor:
        return _actor(actor, state.expand(agents_in(actor), *state.shape[-2:]))

    def squash(self, raw: Tensor) -> Tensor:
        return torch.tanh(raw)

    def smooth(self, action: Tensor, noise: Tensor) -> Tensor:
        return (action + noise).clamp(-1.0, 1.0)

    def value(self, critic: Params, state: Tensor, action: Tensor) -> Tensor:
        agents = agents_in(critic)
        both = torch.cat([state.expand(agents, *state.shape[-2:]), action.expand(agents, -1, -1)], dim=-1)
        return _critic(critic, both)

    # Episodes

    def draw_episodes(self, count: int, rng: np.random.Generator) -> Episodes:
        return rng.integers(0, 2**31, size=count)

    def validation_episodes(self) -> Episodes:
        return seeds.generator(self.seed, "validation").integers(0, 2**31, size=self.alg.validation_windows)

    @torch.no_grad()
    def rollout(self, actor: Params, episodes: Episodes, *, record: bool = False, noise: float = 0.0,
                rng: np.random.Generator | None = None) -> Rollout:  # fmt: skip
        agents, count = agents_in(actor), len(episodes)
        batch = self._batch(agents * count)
        observation = batch.reset([int(seed) for seed in np.tile(episodes, agents)])
        actor = {name: value.to(self.device) for name, value in actor.items()}
        returns, lengths = np.zeros(batch.n), np.zeros(batch.n, np.int64)
        rows: list[dict[str, npt.NDArray[Any]]] = []
        while not batch.done.all():
            if len(lengths) and lengths.max() >= MOST_STEPS:
                raise ConfigError(
                    f"env.id={self.env.id} does not end within {MOST_STEPS} steps; set env.max_episode_steps."
                )
            live = ~batch.done
            state = torch.as_tensor(observation, device=self.device).view(agents, count, -1)
            action = self.squash(self.policy(actor, state))
            if noise and rng is not None:
                drawn = rng.normal(0.0, noise, size=tuple(action.shape)).astype(np.float32)
                action = self.smooth(action, torch.as_tensor(drawn, device=self.device))
            acted = action.reshape(batch.n, -1).cpu().numpy()
            result = batch.step(acted)
            if record:
                rows.append({
                    "obs": observation, "action": acted, "reward": result.reward.astype(np.float32),
                    "terminated": result.terminated, "truncated": result.truncated & ~result.terminated,
                })  # fmt: skip
            returns += result.reward
            lengths += live
            observation = result.observation
        return Rollout(
            returns=returns.reshape(agents, count),
            daily=None,
            steps=int(lengths.sum()),
            transitions=_by_episode(rows, lengths, observation) if record else (),
        )

    def _batch(self, n: int) -> GymBatch:
        """One batch of environments per size, kept for the whole run."""
        if n not in self._batches:
            self._batches[n] = GymBatch(self.env, n)
        return self._batches[n]

    # Learning

    def schema(self) -> Schema:
        return Schema(
            observation=(Field("obs", (self.observations,)),),
            step=(
                Field("action", (self.actions,)),
                Field("reward"),
                Field("terminated", (), "bool"),
                Field("truncated", (), "bool"),
            ),
        )

    def batch(self, replay: Replay) -> Batch:
        drawn = replay.sample(self.alg.batch, n_step=self.alg.n_step, gamma=self.alg.gamma)
        return Batch(
            state=drawn.observation["obs"].to(self.device),
            action=drawn.step["action"].to(self.device),
            reward=drawn.step["reward"].to(self.device).unsqueeze(1),
            next_state=drawn.next_observation["obs"].to(self.device),
            discount=drawn.discount.to(self.device).unsqueeze(1),
        )


def gym_policy(task: GymTask, actor: Params) -> Act:
    """One agent as a plain policy without noise, for evaluation."""
    actor = {name: value.to(task.device) for name, value in actor.items()}

    @torch.no_grad()
    def act(observation: npt.NDArray[np.float32]) -> npt.NDArray[np.floating]:
        state = torch.as_tensor(observation, device=task.device).unsqueeze(0)
        action: npt.NDArray[np.float32] = task.squash(task.policy(actor, state))[0].cpu().numpy()
        return action

    return act


def _init_actor(agents: int, inputs: int, hidden: int, outputs: int, rng: torch.Generator) -> Params:
    """Small gains first, a large one last: nearly linear feedback, strong enough to act from the first day on.

    Evolution lives on the differences between random agents; a small last layer, as gradient alone likes it, makes
    them all alike.
    """
    params: Params = {}
    init_linear(params, "0", (agents, inputs, hidden), rng, gain=0.5)
    init_linear(params, "1", (agents, hidden, hidden), rng)
    init_linear(params, "2", (agents, hidden, outputs), rng, gain=3.0)
    return params


def _actor(params: Params, x: Tensor) -> Tensor:
    """raw = C tanh(B tanh(A x)), [agent, row, observation] -> [agent, row, action]."""
    h = torch.tanh(linear(params, "0", x))
    h = torch.tanh(linear(params, "1", h))
    return linear(params, "2", h)


def _init_critic(agents: int, inputs: int, hidden: int, rng: torch.Generator) -> Params:
    params: Params = {}
    init_linear(params, "0", (agents, inputs, hidden), rng)
    init_linear(params, "1", (agents, hidden, hidden), rng)
    init_linear(params, "2", (agents, hidden, 1), rng, gain=0.3)
    return params


def _critic(params: Params, x: Tensor) -> Tensor:
    """q = C relu(norm(B relu(norm(A x)))), [agent, row, observation + action] -> [agent, row, 1].

    The norms have no gain and shift of their own: the next layer can do the same, and small networks on a CPU cost
    what their number of operations costs.
    """
    h = F.relu(_standardised(linear(params, "0", x)))
    h = F.relu(_standardised(linear(params, "1", h)))
    return linear(params, "2", h)


def _standardised(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _by_episode(
    rows: list[dict[str, npt.NDArray[Any]]], lengths: npt.NDArray[np.int64], last: npt.NDArray[np.float32]
) -> tuple[Transitions, ...]:
    """Episodes end at different times: each becomes a chunk of its own, one stream wide."""
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return tuple(
        Transitions(
            {name: value[:length, stream : stream + 1] for name, value in stacked.items()},
            {"obs": last[stream : stream + 1]},
        )
        for stream, length in enumerate(lengths)
    )
