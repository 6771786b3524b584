"""Do two variants have the same number of parameters? A comparison of dynamics means little when one is larger."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from rich.table import Table

from eigen2.algorithms.presets import read_presets
from eigen2.algorithms.pwm.actor import Actor
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.critic import ValueEnsemble
from eigen2.algorithms.pwm.world_model import WorldModel
from eigen2.config import Config, load_config
from eigen2.envs.control.catalogue import control_task
from eigen2.errors import ConfigError
from eigen2.nets.dense import parameter_count

TOLERANCE = 0.01
FLOW = "_flow"
"""Ending of a preset that is another one with flow dynamics."""


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
    actor = Actor(config.actor, latent, actions, activation, None)
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


def parity_facts(names: Sequence[str], env: str) -> dict[str, Any]:
    """Every named preset beside its flow partner; one without a partner beside itself with flow dynamics."""
    known = sorted(read_presets("eigen2.algorithms.pwm.presets"))
    for name in names:
        if name not in known:
            raise ConfigError(f"{name} is not a PWM preset; there are: {', '.join(known)}.")
    bases = dict.fromkeys(name.removesuffix(FLOW) for name in names or known)
    return {
        "env": env,
        "tolerance_percent": 100.0 * TOLERANCE,
        "presets": {base: _compare(base, base + FLOW in known, env) for base in bases},
    }


def _compare(base: str, partnered: bool, env: str) -> dict[str, Any]:
    mlp = _config(base, env)
    flow = _config(base + FLOW, env) if partnered else mlp
    assert isinstance(mlp.alg, PWMConfig)
    assert isinstance(flow.alg, PWMConfig)
    with closing(control_task(mlp.env)) as task:
        found = parity(mlp.alg, variant(flow.alg, "flow"), task.observation_size, task.action_size)
    return {"flow_preset": base + FLOW if partnered else None, **found.to_json()}


def _config(name: str, env: str) -> Config:
    return load_config([f"alg={name}", f"env={env}"])


def parity_table(facts: dict[str, Any]) -> Table:
    table = Table(title=f"parameters on {facts['env']}", title_justify="left")
    for column in ("preset", "mlp", "flow", "difference"):
        table.add_column(column, justify="left" if column == "preset" else "right")
    for name, row in facts["presets"].items():
        table.add_row(name, f"{row['mlp']:,}", f"{row['flow']:,}", f"{row['difference_percent']:+.2f} %")
    return table


def require_parity(facts: dict[str, Any]) -> None:
    bad = [f"{n} {row['difference_percent']:+.2f} %" for n, row in facts["presets"].items() if not row["ok"]]
    if bad:
        raise ConfigError(
            f"mlp and flow differ by more than {facts['tolerance_percent']:g} % ({', '.join(bad)}); change alg.model.units "
            "of one of them."
        )
