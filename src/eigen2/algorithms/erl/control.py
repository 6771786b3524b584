"""ERL on continuous control, simulated or any Gymnasium environment: MLP actors and scalar critics."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from eigen2 import seeds
from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.task import Episodes, ERLTask, LearnerBatch, RolloutResult, Transitions
from eigen2.envs.control import environments
from eigen2.envs.control.rollout import Policy, play
from eigen2.nets.stacked import Params, agents_in, init_linear, linear
from eigen2.replay import Replay, Schema
from eigen2.replay.schema import vector_schema


class ControlTask(ERLTask):
    def __init__(self, env: environments.Task, alg: ERLConfig, seed: int, device: torch.device) -> None:
        self.env, self.alg, self.seed, self.device = env, alg, seed, device
        self.observations, self.actions = env.observation_size, env.action_size

    # Networks

    def init_actor(self, agents: int, rng: torch.Generator) -> Params:
        return _init_actor(agents, self.observations, self.alg.hidden, self.actions, rng)

    def init_critic(self, agents: int, rng: torch.Generator) -> Params:
        return _init_critic(agents, self.observations + self.actions, self.alg.hidden, rng)

    def policy(self, actor: Params, state: Tensor) -> Tensor:
        return actor_output(actor, state.expand(agents_in(actor), *state.shape[-2:]))

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
                rng: np.random.Generator | None = None) -> RolloutResult:  # fmt: skip
        agents, count = agents_in(actor), len(episodes)
        actor = {name: value.to(self.device) for name, value in actor.items()}

        def act(observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
            state = torch.as_tensor(observation, device=self.device).view(agents, count, -1)
            action = self.squash(self.policy(actor, state))
            if noise and rng is not None:
                drawn = rng.normal(0.0, noise, size=tuple(action.shape)).astype(np.float32)
                action = self.smooth(action, torch.as_tensor(drawn, device=self.device))
            acted: npt.NDArray[np.float32] = action.reshape(agents * count, -1).cpu().numpy()
            return acted

        played = play(
            self.env.environments(agents * count),
            act,
            [int(seed) for seed in np.tile(episodes, agents)],
            record=record,
        )
        return RolloutResult(
            returns=played.returns.reshape(agents, count),
            steps=int(played.lengths.sum()),
            transitions=tuple(Transitions(steps, after) for steps, after in played.transitions),
        )

    # Learning

    def schema(self) -> Schema:
        return vector_schema(self.observations, self.actions, rows=self.env.observation_rows)

    def batch(self, replay: Replay) -> LearnerBatch:
        drawn = replay.sample(self.alg.batch, n_step=self.alg.n_step, gamma=self.alg.gamma)
        return LearnerBatch(
            state=drawn.observation["obs"].to(self.device),
            action=drawn.step["action"].to(self.device),
            reward=drawn.step["reward"].to(self.device).unsqueeze(1),
            next_state=drawn.next_observation["obs"].to(self.device),
            discount=drawn.discount.to(self.device).unsqueeze(1),
        )

    def close(self) -> None:
        self.env.close()


def control_policy(task: ControlTask, actor: Params) -> Policy:
    """One agent as a plain policy without noise, for evaluation."""
    return actor_policy({name: value.to(task.device) for name, value in actor.items()})


def actor_policy(actor: Params) -> Policy:
    """Observations [n, O] -> actions [n, A] in [-1, 1]; it runs where the weights are."""
    device = actor["0.w"].device

    @torch.no_grad()
    def act(observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        state = torch.as_tensor(observation, device=device).unsqueeze(0)
        action: npt.NDArray[np.float32] = torch.tanh(actor_output(actor, state))[0].cpu().numpy()
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


def actor_output(params: Params, x: Tensor) -> Tensor:
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
