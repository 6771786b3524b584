"""Is a stored checkpoint of this config and of this data? Whoever loads a state asks here first.

A checkpoint carries the computing keys of the config it was made with. They are read as a config of the present
version, so that renamed keys are found under their present names and keys that are newer than the run take their
defaults, and then compared key by key.
"""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from eigen2.algorithms.contract import Experiment
from eigen2.config import Config, computing_differences, retired, validate
from eigen2.errors import ConfigError, DamagedStateError
from eigen2.harness.metadata import processor
from eigen2.harness.run import Run
from eigen2.section import computing
from eigen2.store.retention import RESUMABLE

NOT_HASHED = (
    "alg.generations", "alg.iterations", "checkpoint.every", "replay.every", "replay.compress", "run.root",
    "run.name", "run.grace_seconds", "cluster", "workers",
)  # fmt: skip
"""Keys that manifests of format 1 left out of their hash of the config."""

ROUNDED = (
    "The generated data of this run is rounded differently by the processor that it was trained on: results agree but for "
    "rounding, and are not bit-identical to those of that machine."
)


def identity(config: Config, experiment: Experiment) -> dict[str, Any]:
    """What a checkpoint says about where it comes from."""
    rounded = experiment.rounded_data_fingerprint
    return {
        "config": computing(config),
        "data": experiment.data_fingerprint,
        "version": version("eigen2"),
        "processor": processor(),
        **({"rounded_data": rounded} if rounded else {}),
    }


def check_identity(run: Run, stored: Mapping[str, Any], config: Config, experiment: Experiment) -> None:
    """Refuse a checkpoint that was made with another config or on other data."""
    check_config(run, stored, config)
    check_data(stored, experiment)


def check_config(run: Run, stored: Mapping[str, Any], config: Config) -> None:
    """Refuse a checkpoint that was made with another config; asked before anything is opened by that config."""
    if "data" not in stored:
        raise ConfigError(
            f"{run.path} holds stored experience alone; there is nothing to train or to evaluate in it."
        )
    edited = f"{run.config_file} is not the one the checkpoint was made with"
    if "config_hash" in stored:
        if stored["config_hash"] != _hash_of_format_1(run.raw_config()):
            raise ConfigError(f"{edited}; restore it or start a new run.")
    elif changed := computing_differences(_readable(stored), config):
        raise ConfigError(f"{edited} ({described(changed)}); restore it or start a new run.")


def retired_settings(run: Run, stored: Mapping[str, Any]) -> list[str]:
    """What a checkpoint was trained with and this version no longer has, `key=value` each."""
    # Checkpoints of format 1 rely on the words of config.yaml.
    return [f"{key}={value}" for key, value in retired(stored.get("config", run.raw_config())).items()]


def retired_sentences(run: Run, stored: Mapping[str, Any]) -> tuple[str, ...]:
    """The same, as sentences: training continues without it."""
    return tuple(
        f"{setting}, with which this run was trained, is no longer there in version {version('eigen2')}: training continues "
        "without it, and no longer computes what the version that began the run would have."
        for setting in retired_settings(run, stored)
    )


def check_data(stored: Mapping[str, Any], experiment: Experiment) -> tuple[str, ...]:
    """Refuse a checkpoint that was made on other data; returns what is to be said of data that is the same but for rounding."""
    if stored["data"] == experiment.data_fingerprint:
        return ()
    rounded = experiment.rounded_data_fingerprint
    # Checkpoints of versions before 0.4 say nothing of rounded data; their config describes it.
    if rounded and stored.get("rounded_data", rounded) == rounded:
        return (ROUNDED,)
    if rounded:
        raise ConfigError(
            f"The generated data of this run is not what version {stored.get('version')} generated; use the version that began "
            "the run or start a new one."
        )
    raise ConfigError(
        f"The run was trained on data with fingerprint {stored['data'][:16]}, the data is now "
        f"{experiment.data_fingerprint[:16]}; restore the file it was trained on or start a new run."
    )


def check_stored_config(run: Run) -> None:
    """Refuse a run whose config.yaml is not that of its newest checkpoint; one without checkpoints has nothing to show."""
    good = run.checkpoints.good()
    found = [good[name] for name in RESUMABLE if name in good and "data" in good[name].identity]
    if found:
        check_config(run, max(found, key=lambda manifest: manifest.step).identity, run.read_config())


def check_resumable(stored: Config, config: Config) -> None:
    """Refuse overrides that would make the resumed run another run."""
    changed = computing_differences(stored, config)
    if changed:
        raise ConfigError(
            f"A resume cannot change what is computed ({described(changed)}); start a new run for that."
        )


def described(changed: Mapping[str, tuple[Any, Any]]) -> str:
    return "; ".join(f"{key}: {before} -> {after}" for key, (before, after) in changed.items())


def _readable(stored: Mapping[str, Any]) -> Config:
    try:
        return validate(stored["config"], stored=True)
    except ConfigError as error:
        raise DamagedStateError(
            f"The checkpoint was made by version {stored['version']} with a config that this version "
            f"({version('eigen2')}) cannot read: {error}; use the version that made it."
        ) from error


def _hash_of_format_1(values: Any) -> str:
    """The hash that manifests of format 1 carry, of a config.yaml in the words of its time."""
    values = json.loads(json.dumps(values))
    for key in NOT_HASHED:
        section, _, name = key.rpartition(".")
        (values.get(section, {}) if section else values).pop(name, None)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
