"""`evaluate`, and whatever else looks at a trained run: its experiment, opened with what its newest checkpoint holds."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from eigen2.algorithms import registry
from eigen2.algorithms.contract import Evaluation, Experiment, WhatIf
from eigen2.config import computing_differences, load_config
from eigen2.errors import ConfigError
from eigen2.harness.directory import absolute
from eigen2.harness.evaluation_files import write_files
from eigen2.harness.expected import load_state, require_memory, state_bytes
from eigen2.harness.host import Host
from eigen2.harness.identity import check_config, check_data, described
from eigen2.harness.own_data import missing_data_explained, names_own_file
from eigen2.harness.run import Run
from eigen2.store.checkpoints import Checkpoint, tell_refused

VALIDATION, HOLDOUT = "validation", "holdout"


def evaluate_run(
    run: Run,
    split: str,
    say: Callable[[str], None],
    overrides: Sequence[str] = (),
    what_if: WhatIf | None = None,
) -> Evaluation:
    """The champion of a run's newest good checkpoint on `split`; counted and stored with the run.

    `overrides` say where its data is now, or what would be if settings of its environment were others."""
    if split not in (VALIDATION, HOLDOUT):
        raise ConfigError(f"--split is {split!r}; it must be validation or holdout.")
    run.check_recordable()
    with run.held():
        named, settings = _what_if_settings(run, overrides)
        circumstances = replace(what_if or WhatIf(), settings=settings)
        with opened(run, say, named) as experiment:
            # A plug-in that knows no what-ifs is asked as ever.
            evaluation = (
                experiment.evaluate(split, circumstances) if circumstances else experiment.evaluate(split)
            )
        run.add_evaluation(evaluation, say)
        run.check_place()
        say(f"files {write_files(run, evaluation)}")
    return evaluation


def _what_if_settings(run: Run, overrides: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The overrides that say where the data is, and the keys of `env` that the others change."""
    if not overrides:
        return [], {}
    stored = run.read_config()
    named = [override for override in overrides if names_own_file(stored, [override])]
    config = load_config([override for override in overrides if override not in named], stored)
    changed = computing_differences(stored, config)
    if other := [key for key in changed if not key.startswith("env.")]:
        raise ConfigError(f"An evaluation cannot change {other[0]}, which the run was trained with.")
    return named, {key.removeprefix("env."): after for key, (_, after) in changed.items()}


@contextmanager
def opened(run: Run, say: Callable[[str], None], overrides: Sequence[str] = ()) -> Iterator[Experiment]:
    """A run's experiment with the networks of its newest good checkpoint, to be looked at; its replay is not read.

    `overrides` may name the file of its data where it is now; it must hold the same."""
    stored = run.read_config()
    config = absolute(load_config(overrides, stored)) if overrides else stored
    if changed := computing_differences(stored, config):
        raise ConfigError(
            f"{run.path} was trained with other settings ({described(changed)}); only the path of its data can be given."
        )
    named = names_own_file(config, overrides)

    def read(checkpoint: Checkpoint) -> tuple[dict[str, Any], Path | None]:
        require_memory(state_bytes(checkpoint), f"The state of {run.path}")
        return checkpoint.state(), None if named else checkpoint.own_data()

    recovery, found = run.checkpoints.read_newest(read)
    tell_refused(recovery, say)
    if recovery.checkpoint is None or found is None:
        raise ConfigError(f"{run.path} has no checkpoint yet.")
    for sentence in recovery.checkpoint.manifest.inexact:
        say(sentence)
    state, data = found
    check_config(run, recovery.checkpoint.manifest.identity, config)
    algorithm, host = registry.algorithm(config.alg.kind), Host(config, run, data=data)
    needs = algorithm.needs(config, host.services)
    require_memory(sum(needs.held.values()) if needs is not None else 0, f"Opening {run.path}")
    with (
        missing_data_explained(run, recovery.checkpoint),
        algorithm.open(config, host.services) as experiment,
    ):
        for sentence in check_data(recovery.checkpoint.manifest.identity, experiment):
            say(sentence)
        load_state(experiment.trainer, recovery.checkpoint, state)
        yield experiment
