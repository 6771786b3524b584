"""The networks of one PWM agent and how they act; what is exported and evaluated."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigen2 import seeds
from eigen2.algorithms.pwm.actor import Actor
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.critic import ValueEnsemble
from eigen2.algorithms.pwm.normaliser import Normaliser
from eigen2.algorithms.pwm.world_model import WorldModel
from eigen2.envs.control.rollout import Policy
from eigen2.nets.held import held_bytes

Weights = Mapping[str, Tensor]
"""Of a policy: `model.*`, `actor.*` and `observations.*`."""
CPU = torch.device("cpu")


class Behaviour:
    """Actor, critics and their target: all that acts and judges on latents."""

    def __init__(self, config: PWMConfig, actions: int, seed: int, device: torch.device) -> None:
        self.device = device
        latent, activation = config.model.latent, config.model.activation
        self.actor = Actor(
            config.actor, latent, actions, activation, seeds.torch_generator(seed, "actor")
        ).to(device)
        self.critic = ValueEnsemble(
            latent, config.critic.units, config.critic.members, config.gamma, activation,
            seeds.torch_generator(seed, "critic"),
        ).to(device)  # fmt: skip
        self.target_critic = copy.deepcopy(self.critic).requires_grad_(False)

    def modules(self) -> dict[str, torch.nn.Module]:
        return {"actor": self.actor, "critic": self.critic, "target_critic": self.target_critic}

    def owners(self) -> dict[str, int]:
        """Bytes by network; the critics' target counts with them."""
        return {
            "actor": held_bytes(self.actor.state_dict()),
            "critic": held_bytes([self.critic.state_dict(), self.target_critic.state_dict()]),
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            name: {key: value.detach().clone() for key, value in module.state_dict().items()}
            for name, module in self.modules().items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, module in self.modules().items():
            module.load_state_dict(state[name])


class Agent(Behaviour):
    """A behaviour and the world model it was learned in."""

    def __init__(
        self, config: PWMConfig, observations: int, actions: int, seed: int, device: torch.device
    ) -> None:
        super().__init__(config, actions, seed, device)
        self.model = WorldModel(config.model, observations, actions, seeds.torch_generator(seed, "model")).to(
            device
        )

    def modules(self) -> dict[str, torch.nn.Module]:
        return {"model": self.model, **super().modules()}

    def owners(self) -> dict[str, int]:
        return {"model": held_bytes(self.model.state_dict()), **super().owners()}

    def normalise(self, observation: Tensor, statistics: Normaliser) -> Tensor:
        """Raw [..., O] -> normalised, cut at ten deviations."""
        mean, inverse = statistics.tensors(self.device)
        return ((observation.to(self.device) - mean) * inverse).clamp(-10.0, 10.0)

    def greedy(self, statistics: Normaliser) -> Policy:
        """The actor without noise, acting on every real observation."""

        @torch.no_grad()
        def act(observation: NDArray[np.float32]) -> NDArray[np.float32]:
            latent = self.model.encode(self.normalise(torch.from_numpy(observation), statistics))
            action: NDArray[np.float32] = self.actor(latent, None).cpu().numpy()
            return action

        return act


def policy_weights(weights: Mapping[str, Any]) -> dict[str, Tensor]:
    """Of an agent's state and its observation statistics what acts: `model.*`, `actor.*` and `observations.*`."""
    agent = weights["agent"]
    parts = {
        "model": agent["model"],
        "actor": agent["actor"],
        "observations": weights["observations"],
    }
    return {
        f"{part}.{name}": torch.as_tensor(value if isinstance(value, Tensor) else np.asarray(value)).cpu()
        for part, values in parts.items()
        for name, value in values.items()
    }


def policy_in(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """The newest policy in a trainer's state."""
    return policy_weights({"agent": state["agent"], "observations": state["collector"]["observations"]})


def champion_in(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """The policy of the best evaluation in a trainer's state; the newest before the first one."""
    best = state["best"]["weights"]
    return policy_weights(best) if best else policy_in(state)


def restored(
    config: PWMConfig, observations: int, actions: int, weights: Weights, device: torch.device = CPU
) -> tuple[Agent, Normaliser]:
    """The agent with a policy's weights (its critics are not theirs), and the observation statistics."""
    agent = Agent(config, observations, actions, seed=0, device=device)
    agent.model.load_state_dict(_part(weights, "model"))
    agent.actor.load_state_dict(_part(weights, "actor"))
    statistics = Normaliser(observations)
    statistics.load_state_dict(_part(weights, "observations"))
    return agent, statistics


def _part(weights: Weights, part: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{part}."): value for name, value in weights.items() if name.startswith(f"{part}.")
    }


@torch.no_grad()
def follow(follower: torch.nn.Module, leader: torch.nn.Module, rate: float) -> None:
    """follower += rate (leader - follower), parameter by parameter."""
    torch._foreach_lerp_(list(follower.parameters()), list(leader.parameters()), rate)
