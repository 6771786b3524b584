"""`pwm parity`: the parameter counts of presets and of their flow variants."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from eigen2.config import Config, load_config, presets
from eigen2.envs.config import GymConfig
from eigen2.envs.control.config import ControlConfig
from eigen2.errors import ConfigError
from eigen2.pwm.config import PWMConfig
from eigen2.pwm.parity import TOLERANCE, parity, variant
from eigen2.runs.build import control_task

FLOW = "_flow"


def parity_facts(names: Sequence[str], env: str) -> dict[str, Any]:
    """Every named preset beside its flow partner; one without a partner beside itself with flow dynamics."""
    known = [name for name in presets("alg") if isinstance(_config(name, env).alg, PWMConfig)]
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
    config = _config(base, env)
    if not isinstance(config.env, ControlConfig | GymConfig):
        raise ConfigError(f"env={env} is not one control task; use e.g. dflex_ant.")
    task, mlp = control_task(config.env), config.alg
    flow = _config(base + FLOW, env).alg if partnered else mlp
    assert isinstance(mlp, PWMConfig)
    assert isinstance(flow, PWMConfig)
    found = parity(mlp, variant(flow, "flow"), task.observation_size, task.action_size)
    return {"flow_preset": base + FLOW if partnered else None, **found.to_json()}


def _config(name: str, env: str) -> Config:
    kind = "trading" if name == "erl" else env
    return load_config([f"alg={name}", f"env={kind}"])


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
