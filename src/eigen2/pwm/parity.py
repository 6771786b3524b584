"""Do two variants have the same number of parameters? A comparison of dynamics means little when one is larger."""

from dataclasses import dataclass
from typing import Any, Literal

from eigen2.nets.dense import parameter_count
from eigen2.pwm.config import PWMConfig
from eigen2.pwm.critic import ValueEnsemble
from eigen2.pwm.policy import make_policy
from eigen2.pwm.world_model import WorldModel

TOLERANCE = 0.01


@dataclass(frozen=True)
class ParameterCounts:
    model: int
    actor: int
    critic: int

    @property
    def total(self) -> int:
        return self.model + self.actor + self.critic


def count_parameters(config: PWMConfig, observations: int, actions: int) -> ParameterCounts:
    """Counts without allocating the weights."""
    latent, activation = config.model.latent, config.model.activation
    model = WorldModel(config.model, observations, actions, None)
    actor = make_policy(config.actor, latent, actions, activation, None)
    critic = ValueEnsemble(latent, config.critic.units, config.critic.members, config.gamma, activation, None)
    return ParameterCounts(parameter_count(model), parameter_count(actor), parameter_count(critic))


@dataclass(frozen=True)
class Parity:
    """The mlp and the flow variant of one algorithm, on one task."""

    mlp: ParameterCounts
    flow: ParameterCounts

    @property
    def difference(self) -> float:
        """Relative difference of the totals, flow over mlp."""
        return self.flow.total / self.mlp.total - 1.0

    @property
    def holds(self) -> bool:
        return abs(self.difference) <= TOLERANCE

    def to_json(self) -> dict[str, Any]:
        return {
            "mlp": self.mlp.total,
            "flow": self.flow.total,
            "mlp_model": self.mlp.model,
            "flow_model": self.flow.model,
            "difference_percent": round(100.0 * self.difference, 4),
            "ok": self.holds,
        }


def parity(mlp: PWMConfig, flow: PWMConfig, observations: int, actions: int) -> Parity:
    """Compares two configs; the caller says which is which."""
    return Parity(count_parameters(mlp, observations, actions), count_parameters(flow, observations, actions))


def variant(config: PWMConfig, dynamics: Literal["mlp", "flow"]) -> PWMConfig:
    """The same config with the other dynamics, for presets that have no partner of their own."""
    return config.model_copy(update={"model": config.model.model_copy(update={"dynamics": dynamics})})
