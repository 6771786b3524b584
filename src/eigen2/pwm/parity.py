"""Do two variants have the same number of parameters? A comparison of dynamics means little when one is larger."""

from dataclasses import dataclass

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


def difference(base: ParameterCounts, variant: ParameterCounts) -> float:
    """Relative difference of the totals; parity holds when it is within TOLERANCE either way."""
    return variant.total / base.total - 1.0
