"""Presets and overrides -> one frozen, typed config.

Hydra's compose API gives presets and override grammar; pydantic gives types, ranges and closed keys. A preset lists
only what differs from the defaults declared in the section classes. An `alg` preset belongs to its algorithm, which
also says how its settings differ by kind of environment; an `env` preset is a file in `conf/env`.
"""

import difflib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, SerializeAsAny, ValidationError, field_validator

from eigen2.algorithms import registry
from eigen2.algorithms.contract import AlgorithmConfig
from eigen2.algorithms.presets import read_presets
from eigen2.envs.config import GymConfig, TradingConfig
from eigen2.envs.control.config import ControlConfig, TasksConfig
from eigen2.errors import ConfigError
from eigen2.replay.config import ReplayConfig
from eigen2.section import OPERATES, STORED, Section, computing, constants, retired_keys, value_rule

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

DEFAULTS = {"alg": "erl", "env": "trading"}
_KEY = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


class RunConfig(Section):
    root: Path = Field(Path("runs"), json_schema_extra=OPERATES)
    """Directory that holds the run directories."""
    name: str | None = Field(None, json_schema_extra=OPERATES)
    """Name of the run; <alg>_<env>_seed<seed> when null."""
    grace_seconds: float = Field(60.0, ge=0, json_schema_extra=OPERATES)
    """After a signal, how long the step in progress may take before it is dropped."""
    stall_minutes: float = Field(10.0, ge=0, json_schema_extra=OPERATES)
    """Warn when a phase makes no progress for this long, and log the stack of every thread; 0: never."""
    stall_abort: bool = Field(False, json_schema_extra=OPERATES)
    """End a run that makes no progress for `stall_minutes` with exit code 75, so that it can be resumed."""
    keep_data: bool = Field(True, json_schema_extra=OPERATES)
    """Keep a copy of your data file inside the run, so that it resumes without the file. An existing copy is never
    deleted."""
    report: bool = Field(True, json_schema_extra=OPERATES)
    """Write report.html when a run ends or is stopped."""


class CheckpointConfig(Section):
    every: int = Field(1, ge=1, json_schema_extra=OPERATES)
    """Steps between checkpoints; the last step always gets one."""
    parity: float = Field(0.0, ge=0, le=0.5, json_schema_extra=OPERATES)
    """Parity data stored with a checkpoint, as a share of its objects: with 0.05, one damaged object in twenty can be
    recovered."""


class CloudConfig(Section):
    url: str | None = Field(None, json_schema_extra=OPERATES)
    """Where runs are kept: gs://BUCKET/PREFIX, s3://..., az://... or file:///DIRECTORY; null: what CLOUD_PROVIDER and
    CLOUD_BUCKET say, else nowhere; off: nowhere."""
    max_mbps: float | None = Field(None, gt=0, json_schema_extra=OPERATES)
    """Upload at most this many megabits a second."""
    exclude: tuple[str, ...] = Field((), json_schema_extra=OPERATES)
    """Patterns of files that are not uploaded, e.g. [tensorboard/, '*.html']; what a resume needs is always
    uploaded."""
    drain_seconds: float = Field(300.0, ge=0, json_schema_extra=OPERATES)
    """At the end of a run, how long to wait for the last uploads."""
    lease_seconds: float = Field(120.0, ge=5, json_schema_extra=OPERATES)
    """After this long without renewal, another machine may take over the run's lease."""
    timeout_seconds: float = Field(120.0, ge=1, json_schema_extra=OPERATES)
    """Timeout of a request; it is then retried."""


class MemoryConfig(Section):
    verbose: int = Field(0, ge=0, json_schema_extra=OPERATES)
    """Print memory use and its growth every n steps; 0: never. memory.jsonl always has them."""


class Config(Section):
    seed: int = Field(7, ge=0, lt=2**63)
    """Root seed; every random number of the run derives from it."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto takes CUDA, then MPS, then the CPU."""
    threads: int = Field(1, ge=1)
    """PyTorch threads; more than one helps only large networks on idle cores."""
    cluster: Literal["inline", "processes"] = Field("inline", json_schema_extra=OPERATES)
    """Evaluate the agents of ERL in this process (inline) or in worker processes."""
    workers: int = Field(2, ge=1, json_schema_extra=OPERATES)
    """Worker processes for cluster=processes; results do not depend on the number."""
    track: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = Field((), json_schema_extra=OPERATES)
    """Trackers that also get the metrics, e.g. track=tensorboard,wandb,trackio: event files in RUN/tensorboard,
    Weights & Biases (offline without an API key), local trackio; off: none."""
    alg: SerializeAsAny[AlgorithmConfig]
    env: Annotated[TradingConfig | GymConfig | ControlConfig | TasksConfig, Field(discriminator="kind")]
    run: RunConfig = RunConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    cloud: CloudConfig = CloudConfig()
    memory: MemoryConfig = MemoryConfig()
    replay: ReplayConfig = ReplayConfig()

    presets: dict[str, str] = Field(default_factory=lambda: dict(DEFAULTS), json_schema_extra=OPERATES)
    """Names of the chosen presets; set by `alg=NAME env=NAME`."""

    @field_validator("track", mode="before")
    @classmethod
    def _trackers(cls, value: Any) -> Any:
        if value in (None, "off", ["off"]):
            return ()
        names = value.split(",") if isinstance(value, str) else value
        return tuple(dict.fromkeys(map(str.strip, names))) if _are_words(names) else names


def load_config(overrides: Sequence[str] = (), base: Config | None = None) -> Config:
    """Resolve presets and overrides, e.g. ``["env.data=sp20", "alg.population=8", "seed=3"]``.

    With `base`, a resumed run's config, overrides apply to it and presets cannot be chosen anew.
    """
    choices, values = _choices(overrides)
    if base is None:
        base = preset_config(DEFAULTS | choices)
    elif any(base.presets[group] != name for group, name in choices.items()):
        raise ConfigError(f"A resumed run keeps its presets ({base.presets}); start a new run for {choices}.")
    dumped = base.model_dump(mode="json")
    known = dict(_leaves(dumped))
    for override in values:
        _refuse_unknown(override, known, base)
    if not values:
        return base
    config = validate(_composed(dumped, [_line(o, base) for o in values]))
    before, after = constants(base), constants(config)
    for key, value in before.items():
        if after.get(key, value) != value:
            raise ConfigError(f"`{key}` is no setting: it is {value}; leave it out.")
    return config


def _composed(values: Mapping[str, Any], overrides: Sequence[str]) -> Any:
    """`values` with Hydra's overrides applied."""
    from hydra import compose, initialize
    from hydra.core.config_store import ConfigStore
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    ConfigStore.instance().store(name="eigen2_resolved", node=OmegaConf.create(dict(values)))
    try:
        with initialize(version_base=None, config_path=None):
            composed = compose("eigen2_resolved", overrides=list(overrides))
        return OmegaConf.to_container(composed, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(f"Cannot apply the overrides: {str(error).splitlines()[0]}") from error


def resolve(overrides: Sequence[str], log_dir: Path | None, base: Config | None = None) -> Config:
    """The config; `log_dir` is run.root as a plain path, in which no character has a meaning of its own."""
    config = load_config(overrides, base)
    if log_dir is None:
        return config
    if any(override.startswith("run.root=") for override in overrides):
        raise ConfigError("--log-dir and run.root= are two spellings of one thing; give one of them.")
    return config.model_copy(update={"run": config.run.model_copy(update={"root": log_dir})})


def preset_config(choices: Mapping[str, str]) -> Config:
    """The config of the chosen presets, before any override."""
    env = _env_preset(choices["env"])
    try:
        algorithm, settings = registry.preset(choices["alg"])
    except LookupError:
        raise _no_preset("alg", choices["alg"], registry.preset_names()) from None
    differing = settings.pop("on", {}).get(env["kind"], {})
    also = settings.pop("also", {})
    alg = _merged({**settings, "kind": algorithm.name}, differing)
    return validate({**also, "alg": alg, "env": env, "presets": dict(choices)})


def validate(values: Any, stored: bool = False) -> Config:
    """Check types, ranges and keys, and whether the algorithm takes the environment; an error names key and rule.

    `stored` is for the config of a run, which an earlier version may have written.
    """
    context = STORED if stored else None
    if not isinstance(values, Mapping):
        raise ConfigError(f"a config is a table of sections, not {type(values).__name__}")
    alg = values.get("alg")
    if not isinstance(alg, AlgorithmConfig):
        if not isinstance(alg, Mapping) or not isinstance(alg.get("kind"), str):
            raise ConfigError("`alg.kind` must name an algorithm")
        alg = _validated(registry.algorithm(alg["kind"]).config, alg, "alg.", context)
    config: Config = _validated(Config, {**values, "alg": alg}, "", context)
    reason = registry.algorithm(alg.kind).accepts(config.env)
    if reason is not None:
        raise ConfigError(reason)
    return config


def retired(stored: Any) -> dict[str, Any]:
    """Dotted key -> value, of the mechanisms that a stored config has on and this version no longer has."""
    alg = stored.get("alg") if isinstance(stored, Mapping) else None
    if not isinstance(alg, Mapping) or not isinstance(alg.get("kind"), str):
        return {}
    return retired_keys(registry.algorithm(alg["kind"]).config, alg, "alg.")


def differences(a: Config, b: Config) -> dict[str, tuple[Any, Any]]:
    """Keys whose values differ, as {dotted key: (in a, in b)}; a key one side lacks reads None there."""
    return _differences(a.model_dump(mode="json"), b.model_dump(mode="json"))


def computing_differences(a: Config, b: Config) -> dict[str, tuple[Any, Any]]:
    """`differences` of the keys that decide what is computed."""
    return _differences(computing(a), computing(b))


def fingerprint(config: Config) -> str:
    """One hash of the keys that decide what is computed."""
    return hashlib.sha256(json.dumps(computing(config), sort_keys=True).encode()).hexdigest()


def _differences(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    a, b = dict(_leaves(left)), dict(_leaves(right))
    return {key: (a.get(key), b.get(key)) for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)}


def _validated(kind: type[Any], values: Any, prefix: str = "", context: dict[str, Any] | None = None) -> Any:
    try:
        return kind.model_validate(values, context=context)
    except ValidationError as error:
        raise ConfigError("; ".join(_sentence(e, prefix) for e in error.errors())) from error


def _merged(settings: Mapping[str, Any], differing: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` with those of `differing` in their place, section by section."""
    out = dict(settings)
    for key, value in differing.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = _merged(out[key], value) if both else value
    return out


def _line(override: "Override", base: Config) -> str:
    """For Hydra. A table may bring keys that no preset has; those of a section are checked by its class."""
    open_table = isinstance(override.value(), dict) or _in_open_table(override.key_or_group, base)
    return ("++" if open_table else "") + str(override.input_line)


def _in_open_table(key: str, base: Config) -> bool:
    """Whether a key belongs to a plain table, e.g. alg.settings.learning_rate."""
    found: Any = base
    for part in key.split(".")[:-1]:
        found = found.get(part, {}) if isinstance(found, dict) else getattr(found, part, None)
    return isinstance(found, dict)


def _choices(overrides: Sequence[str]) -> tuple[dict[str, str], list["Override"]]:
    if not overrides:
        return {}, []
    # Imported here: Hydra is half of what a command without overrides would cost.
    choices: dict[str, str] = {}
    values = []
    for override in map(_parsed, map(_listed, overrides)):
        if override.is_sweep_override():
            raise ConfigError(
                f"`{override.input_line}` asks for several values at once; give one value per run."
            )
        if override.is_delete() or override.is_add() or override.package is not None:
            raise ConfigError(
                f"`{override.input_line}` adds, deletes or moves a key; every key exists already, write key=value."
            )
        if override.key_or_group in DEFAULTS:
            choices[override.key_or_group] = str(override.value())
        else:
            values.append(override)
    return choices, values


def _listed(word: str) -> str:
    """`track=a,b` is one list, as its users write it elsewhere; Hydra takes it for two runs."""
    key, _, value = word.partition("=")
    return f"{key}=[{value}]" if key == "track" and "," in value and value[0] not in "['\"" else word


def _are_words(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, str) for value in values)


def _parsed(word: str) -> "Override":
    """Hydra's reading of `key=value`. A value that its grammar does not know is taken as it stands: paths with ~ or
    brackets need no quotes beside those of the shell."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    try:
        return parser.parse_override(word)
    except HydraException as error:
        key, equals, value = word.partition("=")
        if not equals or not _KEY.fullmatch(key) or value.startswith(("'", '"', "[", "{")):
            raise ConfigError(f"Cannot read `{word}`; write key=value, e.g. seed=3.") from error
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    return parser.parse_override(f"{key}='{quoted}'")


def config_choices(words: Sequence[str]) -> dict[str, str]:
    """The presets that `alg=NAME env=NAME` choose; other overrides say nothing about them."""
    return DEFAULTS | _choices(words)[0]


def _env_preset(name: str) -> dict[str, Any]:
    known = read_presets("eigen2.conf.env")
    if name not in known:
        raise _no_preset("env", name, sorted(known))
    return known[name]


def _no_preset(group: str, name: str, names: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"{group}={name} is not a preset{_nearest(name, names)}; there are: {', '.join(names)}."
    )


def _refuse_unknown(override: "Override", known: Mapping[str, Any], base: Config) -> None:
    key = override.key_or_group
    if key == "presets" or key.startswith("presets."):
        raise ConfigError("Presets are chosen by `alg=NAME env=NAME`, not by `presets`.")
    if key in known or any(name.startswith(key + ".") for name in known) or _in_open_table(key, base):
        return
    sections = {"alg": base.alg, "env": base.env}
    renamed = {
        f"{name}.{old}": f"{name}.{new}"
        for name, section in sections.items()
        for old, new in section.former_names().items()
    }
    if key in renamed:
        raise ConfigError(f"`{key}` is now called `{renamed[key]}`.")
    group, _, name = key.partition(".")
    if group in sections and name in _no_longer(sections[group]):
        raise ConfigError(f"`{key}` is no longer there; leave it out.")
    raise ConfigError(
        f"Unknown key `{key}`{_nearest(key, list(known))}; `eigen2 train --show-config` lists all keys."
    )


def _no_longer(section: Section, prefix: str = "") -> set[str]:
    """Dotted names of the keys that a section, or one inside it, no longer has."""
    found = {f"{prefix}{name}" for name in (*section.gone, *section.retired)}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Section):
            found |= _no_longer(value, f"{prefix}{name}.")
    return found


def _nearest(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f" (did you mean `{close[0]}`?)" if close else ""


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _sentence(error: Any, prefix: str) -> str:
    kinds = {"trading", "gym", "control", "tasks"}
    key = prefix + ".".join(str(part) for part in error["loc"] if part not in kinds)
    if error["type"] == "extra_forbidden":
        return f"unknown key `{key}`"
    key = key.removesuffix(".")
    given = "" if error["type"] in ("missing", "value_error") else f" (it is {error['input']!r})"
    return f"`{key}`: {value_rule(error)}{given}"
