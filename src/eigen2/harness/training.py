"""`train` and `evaluate`: from words on the command line to a run that has been trained or evaluated.

A run is opened once. A new one is opened before its directory exists, so that everything that can be refused - data,
sizes, room on the disk - is refused before anything is written; a resumed one is owned first.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from eigen2.algorithms import registry
from eigen2.algorithms.contract import Evaluation, Experiment, Progress, Services, WhatIf, no_progress
from eigen2.config import Config, computing_differences, load_config, resolve
from eigen2.errors import ConfigError, ResourceError
from eigen2.harness.console import TrainingConsole
from eigen2.harness.datasets import RunDatasets
from eigen2.harness.directory import check_name, create_run, find_run
from eigen2.harness.evaluation_files import write_files
from eigen2.harness.expected import load_state, require_memory, state_bytes
from eigen2.harness.healing import newest_healed
from eigen2.harness.identity import check_config, check_data, check_resumable, described, identity
from eigen2.harness.loop import restore, train
from eigen2.harness.outcome import note_actual
from eigen2.harness.own_data import OwnData, kept_file, missing_data_explained, names_own_file
from eigen2.harness.planning import Planner, box
from eigen2.harness.recording import Recorder
from eigen2.harness.reporting import FILM_MEMORY, PAGE_MEMORY, MakePage, reported, write_film
from eigen2.harness.run import Run
from eigen2.harness.sealed import damaged_files, holds
from eigen2.harness.signals import StopSignals, stoppable
from eigen2.harness.sync import fetch_run, is_url
from eigen2.harness.syncing import Cloud, free_name, giving_back, located, open_cloud, uploading
from eigen2.harness.trackers import check_trackers
from eigen2.harness.trust import WANDB, check_place, remember_place, remember_wandb, typed_words
from eigen2.harness.watch import Watch
from eigen2.store.checkpoints import Checkpoint, tell_refused
from eigen2.store.holdout_ledger import user_ledger

VALIDATION, HOLDOUT = "validation", "holdout"
OPENED = "before training began; `eigen2 train --resume {}` goes on"
EVALUATED = "during the final evaluation; training is complete, and `eigen2 train --resume {}` evaluates it"
"""What is said when a run is stopped at these moments."""

THREADS_PER_CORE = 16
"""More than that is a mistake."""


class Host:
    """The harness as an algorithm sees it; the run appears when its directory does, `data` is the file it keeps."""

    def __init__(
        self,
        config: Config,
        run: Run | None = None,
        progress: Progress = no_progress,
        data: Path | None = None,
        typed: frozenset[str] = frozenset(),
    ) -> None:
        self.run = run
        self.services = Services(
            datasets=RunDatasets(config.run.root, typed if run is None else run.typed),
            fingerprint=_fingerprint,
            progress=progress,
            evaluations=lambda: [] if self.run is None else self.run.evaluations(),
            metadata=lambda: {} if self.run is None else {"name": self.run.name, **self.run.metadata()},
            data=data,
            holdouts=_UsesByRun(self),
        )


class _UsesByRun:
    """The user's ledger of holdout uses; each use is signed with the run that makes it."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def place(self) -> str:
        return user_ledger().place

    def record(self, use: Mapping[str, Any], holdout: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
        run = self._host.run
        return user_ledger().record({**use, "run": None if run is None else str(run.path)}, holdout)


def planned_config(overrides: Sequence[str], log_dir: Path | None) -> tuple[Config, Services, bool]:
    """The config of a run that is only planned, what an algorithm may ask about it, and whether it has a cloud."""
    config = _absolute(resolve(overrides, log_dir))
    check_name(config)
    _check_threads(config)
    services = Host(config, typed=typed_words(overrides)).services
    config = registry.algorithm(config.alg.kind).resolve(config, services)
    return config, services, located(config.cloud) is not None


def start_run(
    overrides: Sequence[str],
    console: Console,
    log_dir: Path | None = None,
    force: bool = False,
    split: str = VALIDATION,
    trusted: Sequence[str] = (),
    signals: StopSignals | None = None,
    base: Config | None = None,
    data: Path | None = None,
    page: MakePage | None = None,
) -> dict[str, Any]:
    """`force` starts a run that the forecast would refuse; `split` is what the run is evaluated on at its end; `trusted` are
    ids whose modules may be imported; `signals` are those that are heeded already; `page` makes the page about the run
    at its end.

    The config is `base` or that of the presets, with the overrides; `data` is a file in which another run keeps the data."""
    if signals is None:
        with stoppable() as signals:
            return start_run(overrides, console, log_dir, force, split, trusted, signals, base, data, page)
    config = _absolute(resolve(overrides, log_dir, base))
    check_name(config)
    _check_threads(config)
    check_trackers(config.track)
    screen = TrainingConsole(console)
    recorder = Recorder(screen, config.memory.verbose)
    if WANDB in config.track and base is None:
        remember_wandb(screen.say)
    config, cloud = open_cloud(config, screen.say)
    if cloud is not None:
        remember_place(cloud.location, screen.say)
    host = Host(config, progress=recorder.progress, data=data, typed=typed_words([*overrides, *trusted]))
    algorithm = registry.algorithm(config.alg.kind)
    config = algorithm.resolve(config, host.services)
    planner = Planner(config, host.services, cloud is not None)
    if not force:
        planner.require(planner.computed())
    signals.grace_seconds = config.run.grace_seconds
    with ExitStack() as holding, ExitStack() as ownership:
        holding.callback(screen.rests)
        screen.works(f"loading {config.env.label}")
        watch = holding.enter_context(Watch(config.run, signals, screen))
        recorder.heard = watch.heard
        with algorithm.open(config, host.services) as experiment:
            facts = experiment.load_dataset()
            own_data = OwnData(config, experiment, None)
            wanted = planner.opened(experiment, own_data.make())
            if not force:
                planner.require(wanted)
            facts["forecast"] = wanted.to_json()
            with signals.patiently():
                host.run = run = create_run(config, free_name(cloud))
            signals.outlook = OPENED.format(run.path)
            holding.enter_context(run.held())
            screen.mention(f"run {run.path}")
            screen.mention(box(wanted, planner.room))
            for note in experiment.notes:
                screen.mention(f"note: {note}")
            ownership.enter_context(run.owned())
            with (
                uploading(run, cloud, screen.console) as uploaded,
                _reported(run, config, page, watch, signals, screen),
            ):
                with signals.patiently():
                    train(run, config, experiment, None, own_data, recorder, signals, watch, facts)
                    ownership.close()
                watch.evaluates()
                result = _conclude(run, experiment, screen, split, signals)
                note_actual(run, screen.say)
                watch.stops()
                if page is not None and config.run.report and watch.has_room(FILM_MEMORY):
                    write_film(run, experiment, screen.say)
            return result | uploaded


def resume_run(
    name: str | None,
    overrides: Sequence[str],
    console: Console,
    log_dir: Path | None = None,
    force: bool = False,
    split: str = VALIDATION,
    trusted: Sequence[str] = (),
    signals: StopSignals | None = None,
    page: MakePage | None = None,
) -> dict[str, Any]:
    if signals is None:
        with stoppable() as signals:
            return resume_run(name, overrides, console, log_dir, force, split, trusted, signals, page)
    general = resolve([o for o in overrides if o.startswith(("run.root=", "cloud."))], log_dir)
    root, cloud = general.run.root.expanduser(), None
    if name is not None and is_url(name):
        run, cloud = fetch_run(name, root, general.cloud, console)
    else:
        run = find_run(name, root)
    run.typed = typed_words([*overrides, *trusted])
    with giving_back(cloud), run.held():
        return _resumed(run, cloud, overrides, console, log_dir, force, split, signals, page)


def _resumed(
    run: Run,
    cloud: Cloud | None,
    overrides: Sequence[str],
    console: Console,
    log_dir: Path | None,
    force: bool,
    split: str,
    signals: StopSignals,
    page: MakePage | None,
) -> dict[str, Any]:
    """Train a run that is here to its end; `cloud` is where it came from, if it came from a bucket."""
    stored = run.read_config()
    config = _placed(_absolute(resolve(overrides, log_dir, base=stored)), run)
    check_resumable(stored, config)
    _check_threads(config)
    check_trackers(config.track)
    screen = TrainingConsole(console)
    recorder = Recorder(screen, config.memory.verbose)
    screen.mention(f"run {run.path}, resumed")
    if WANDB in config.track and any(override.startswith("track=") for override in overrides):
        remember_wandb(screen.say)
    if cloud is None:
        place = located(config.cloud)
        if place is not None and not any(override.startswith("cloud.url=") for override in overrides):
            check_place(place, run)
        config, cloud = open_cloud(config, screen.say)
    else:
        config = cloud.settled_in(config)
    if cloud is not None:
        remember_place(cloud.location, screen.say)
    algorithm = registry.algorithm(config.alg.kind)
    with ExitStack() as holding, ExitStack() as ownership:
        signals.grace_seconds, signals.outlook = config.run.grace_seconds, OPENED.format(run.path)
        holding.callback(screen.rests)
        screen.works(f"loading step {_step_of(run)}")
        with signals.patiently():
            lock = ownership.enter_context(run.owned())
        watch = holding.enter_context(Watch(config.run, signals, screen))
        recorder.heard = watch.heard
        if lock.warning:
            screen.say(lock.warning)
        # A file that is named now is read, whatever the run keeps.
        named = names_own_file(config, overrides)
        recovery = newest_healed(run, not named, screen.say)
        tell_refused(recovery, screen.say)
        checkpoint = recovery.checkpoint
        # A run that was killed in its very first save begins anew, with the data that it began with.
        known = checkpoint or _first_state(run)
        if known is not None:
            check_config(run, known.manifest.identity, config)
        keeping = None if named else known
        host = Host(config, run, recorder.progress, None if keeping is None else kept_file(keeping))
        if not force:
            Planner(config, host.services, cloud is not None).require_memory()
        with missing_data_explained(run, keeping), algorithm.open(config, host.services) as experiment:
            facts = {} if checkpoint is not None else experiment.load_dataset()
            if known is not None:
                check_data(known.manifest.identity, experiment.data_fingerprint)
            if checkpoint is not None:
                restore(run, config, experiment, checkpoint, screen.say)
                # Checkpoints of format 1 rely on the words of the old config.yaml; from here on they carry their own.
                run.checkpoints.adopt_identity(identity(config, experiment.data_fingerprint))
                facts |= _damage_told(run, checkpoint, screen.say)
            if run.raw_config() != config.model_dump(mode="json") or not holds(run.config_file):
                run.write_config(config)
            own_data = OwnData(config, experiment, known)
            if named:
                own_data.put_back(run.checkpoints)
            with (
                uploading(run, cloud, screen.console) as uploaded,
                _reported(run, config, page, watch, signals, screen),
            ):
                with signals.patiently():
                    train(run, config, experiment, checkpoint, own_data, recorder, signals, watch, facts)
                    ownership.close()
                watch.evaluates()
                result = _conclude(run, experiment, screen, split, signals)
                note_actual(run, screen.say)
                watch.stops()
                if page is not None and config.run.report and watch.has_room(FILM_MEMORY):
                    write_film(run, experiment, screen.say)
            return result | uploaded


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
    config = _absolute(load_config(overrides, stored)) if overrides else stored
    if changed := computing_differences(stored, config):
        raise ConfigError(
            f"{run.path} was trained with other settings ({described(changed)}); only the place of its data can be named."
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
        check_data(recovery.checkpoint.manifest.identity, experiment.data_fingerprint)
        load_state(experiment.trainer, recovery.checkpoint, state)
        yield experiment


def _step_of(run: Run) -> int:
    """The newest one that is saved, by its manifest."""
    return max((manifest.step for manifest in run.checkpoints.good().values()), default=0)


def _first_state(run: Run) -> Checkpoint | None:
    """What a run was before its first step, where nothing else was saved."""
    found = run.checkpoints.good().get("init")
    return None if found is None else Checkpoint(found, run.checkpoints.objects)


def _fingerprint(state: Mapping[str, Any]) -> str:
    # Imported here: a run that is refused has not waited for torch.
    from eigen2.store.state import fingerprint

    return fingerprint(state)


def _damage_told(run: Run, checkpoint: Checkpoint, say: Callable[[str], None]) -> dict[str, Any]:
    """Name each damaged file beside the state, before it is written anew; what is said stays in run.json."""
    found = damaged_files(run, checkpoint.manifest)
    for sentence in found:
        say(f"{sentence}; training does not need it.")
    return {"damage": found} if found else {}


def _check_threads(config: Config) -> None:
    """Thousands of threads take minutes to start, and gain nothing."""
    cores = os.cpu_count() or 1
    if config.threads > THREADS_PER_CORE * cores:
        raise ConfigError(
            f"threads={config.threads} is far more than the {cores} cores of this machine; use at most {cores}."
        )


def _absolute(config: Config) -> Config:
    root = Path(os.path.abspath(config.run.root.expanduser()))
    run = config.run.model_copy(update={"root": root})
    return config.model_copy(update={"run": run, "env": config.env.absolute()})


def _placed(config: Config, run: Run) -> Config:
    """The config of a run that may have been moved here."""
    return config.model_copy(update={"run": config.run.model_copy(update={"root": run.path.parent})})


@contextmanager
def _reported(
    run: Run,
    config: Config,
    page: MakePage | None,
    watch: Watch,
    signals: StopSignals,
    screen: TrainingConsole,
) -> Iterator[None]:
    """The page is made when everything else is done, also by a run that was stopped; a signal waits for it."""
    if page is None or not config.run.report:
        yield
        return

    def make(path: Path) -> Path:
        if not watch.has_room(PAGE_MEMORY):
            raise ResourceError("memory is short")
        with signals.patiently():
            return page(path)

    with reported(run, make, screen.say):
        yield


def _conclude(
    run: Run, experiment: Experiment, screen: TrainingConsole, split: str, signals: StopSignals
) -> dict[str, Any]:
    signals.outlook = EVALUATED.format(run.path)
    screen.works(f"evaluating on {split}")
    evaluation = experiment.evaluate(split)
    screen.rests()
    with signals.patiently():
        run.add_evaluation(evaluation, screen.say)
        screen.console.print(evaluation.shown, highlight=False)
        screen.say(f"run {run.path}")
    return {"run": str(run.path), "evaluation": evaluation.facts}
