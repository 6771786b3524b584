"""Presets and overrides -> one frozen, typed config.

Hydra's compose API gives presets and override grammar; pydantic gives types, ranges and closed keys. A preset file
lists only what differs from the defaults declared in the section classes. An `env` preset may also carry
`tuned: {<alg kind>: {...}}`: algorithm settings that measured best on that kind of environment. An `alg` preset may
carry `also: {<section>: {...}}`: settings outside the algorithm that go with its size, such as `checkpoint.every`.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from hydra import compose, initialize
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import Field, ValidationError, model_validator

from eigen2.envs.config import GymConfig, TradingConfig
from eigen2.envs.control.config import ControlConfig, TasksConfig
from eigen2.erl.config import ERLConfig
from eigen2.errors import ConfigError
from eigen2.pwm.config import PWMConfig
from eigen2.replay.config import ReplayConfig
from eigen2.section import Section

GROUPS = ("alg", "env")


class RunConfig(Section):
    root: Path = Path("runs")
    """Directory that holds the run directories."""
    name: str | None = None
    """Name of the run; <alg>_<env>_seed<seed> when null."""
    grace_seconds: float = Field(60.0, ge=0)
    """After a signal, how long the step in progress may take before it is dropped."""


class CheckpointConfig(Section):
    every: int = Field(1, ge=1)
    """Steps between checkpoints; the last step always gets one."""


class Config(Section):
    seed: int = Field(7, ge=0, lt=2**63)
    """Root of every random stream."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    threads: int = Field(1, ge=1)
    """Torch threads; more than one helps only large networks on idle cores."""
    cluster: Literal["inline", "processes"] = "inline"
    """Where agents are evaluated."""
    workers: int = Field(2, ge=1)
    """Processes when cluster=processes; results do not depend on it."""
    alg: Annotated[ERLConfig | PWMConfig, Field(discriminator="kind")] = ERLConfig()
    env: Annotated[TradingConfig | GymConfig | ControlConfig | TasksConfig, Field(discriminator="kind")] = (
        TradingConfig()
    )
    run: RunConfig = RunConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    replay: ReplayConfig = ReplayConfig()

    presets: dict[str, str] = Field(default_factory=lambda: {"alg": "erl", "env": "trading"})
    """Names of the chosen presets; set by `alg=NAME env=NAME`."""

    @model_validator(mode="after")
    def _algorithm_fits_environment(self) -> Self:
        if self.alg.kind == "pwm" and self.env.kind == "trading":
            raise ValueError("PWM learns control tasks; add e.g. env=pendulum, env=dflex_ant or env=gym")
        if self.alg.kind == "pwm" and self.env.kind == "tasks" and self.alg.pretrain.replay is not None:
            raise ValueError("env=tasks is trained on env.replays alone; leave alg.pretrain.replay out")
        if self.alg.kind == "erl" and self.env.kind in ("control", "tasks"):
            raise ValueError(
                "ERL trades markets and plays Gymnasium tasks; use env=trading, env=gym or alg=pwm_tiny"
            )
        return self

    @property
    def steps(self) -> int:
        """Steps of the whole run: generations, or iterations of every phase."""
        if self.alg.kind == "erl":
            return self.alg.generations
        if self.env.kind == "tasks":
            return self.alg.iterations + len(self.env.distinct) * self.alg.multitask.policy_iterations
        return self.alg.pretrain_steps + self.alg.iterations


def load_config(overrides: Sequence[str] = (), base: Config | None = None) -> Config:
    """Resolve presets and overrides, e.g. ``["env.data=sp20", "alg.population=8", "seed=3"]``.

    With `base`, a resumed run's config, overrides apply to it and presets cannot be chosen anew.
    """
    choices, values = _choices(overrides)
    if base is None:
        base = preset_config({"alg": "erl", "env": "trading"} | choices)
    elif any(base.presets[group] != name for group, name in choices.items()):
        raise ConfigError(f"A resumed run keeps its presets ({base.presets}); start a new run for {choices}.")
    ConfigStore.instance().store(name="eigen2_resolved", node=OmegaConf.create(base.model_dump(mode="json")))
    known = dict(_leaves(base.model_dump(mode="json")))
    for override in values:
        _refuse_unknown(override, known)
    try:
        with initialize(version_base=None, config_path=None):
            composed = compose("eigen2_resolved", overrides=[str(o.input_line) for o in values])
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(f"Cannot apply the overrides: {str(error).splitlines()[0]}") from error
    return validate(OmegaConf.to_container(composed, resolve=True))


def preset_config(choices: Mapping[str, str]) -> Config:
    """The config of the chosen presets, before any override."""
    sections: dict[str, Any] = {group: _preset(group, name) for group, name in choices.items()}
    tuned = sections["env"].pop("tuned", {}).get(sections["alg"].get("kind"), {})
    also = sections["alg"].pop("also", {})
    sections["alg"] = {**sections["alg"], **tuned}
    return validate({**also, **sections, "presets": dict(choices)})


def validate(values: Any) -> Config:
    """Check types, ranges and keys; the error names the key, the value and the rule."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError("; ".join(_sentence(e) for e in error.errors())) from error


def differences(a: Config, b: Config) -> dict[str, tuple[Any, Any]]:
    """Keys whose values differ, as {dotted key: (in a, in b)}; a key one side lacks reads None there."""
    left, right = dict(_leaves(a.model_dump(mode="json"))), dict(_leaves(b.model_dump(mode="json")))
    keys = sorted(left.keys() | right.keys())
    return {key: (left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)}


def presets(group: str) -> list[str]:
    files = resources.files("eigen2.conf").joinpath(group).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def _choices(overrides: Sequence[str]) -> tuple[dict[str, str], list[Override]]:
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except (OverrideParseException, HydraException) as error:
        raise ConfigError(
            f"Cannot read an override: {str(error).splitlines()[0]}; write key=value."
        ) from error
    choices: dict[str, str] = {}
    values = []
    for override in parsed:
        if override.is_sweep_override():
            raise ConfigError(
                f"`{override.input_line}` asks for several values at once; give one value per run."
            )
        if override.is_delete() or override.is_add():
            raise ConfigError(
                f"`{override.input_line}` adds or deletes a key; every key exists already, write key=value."
            )
        if override.key_or_group in GROUPS:
            choices[override.key_or_group] = str(override.value())
        else:
            values.append(override)
    return choices, values


def _preset(group: str, name: str) -> dict[str, Any]:
    names = presets(group)
    if name not in names:
        raise ConfigError(
            f"{group}={name} is not a preset{_nearest(name, names)}; there are: {', '.join(names)}."
        )
    text = resources.files("eigen2.conf").joinpath(group, f"{name}.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text) or {})


def _refuse_unknown(override: Override, known: Mapping[str, Any]) -> None:
    key = override.key_or_group
    if key == "presets" or key.startswith("presets."):
        raise ConfigError("Presets are chosen by `alg=NAME env=NAME`, not by `presets`.")
    if key in known or any(name.startswith(key + ".") for name in known):
        return
    raise ConfigError(
        f"Unknown key `{key}`{_nearest(key, list(known))}; `eigen2 train --show-config` lists all keys."
    )


def _nearest(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f" (did you mean `{close[0]}`?)" if close else ""


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _sentence(error: Any) -> str:
    kinds = {"trading", "gym", "control", "tasks", "erl", "pwm"}
    key = ".".join(str(part) for part in error["loc"] if part not in kinds)
    if error["type"] == "extra_forbidden":
        return f"unknown key `{key}`"
    given = "" if error["type"] in ("missing", "value_error") else f" (it is {error['input']!r})"
    return f"`{key}`: {error['msg']}{given}"
