"""`train`: from words on the command line to a run that has been trained and evaluated.

A run is opened once. A new one is opened before its directory exists, so that everything that can be refused - data,
sizes, room on the disk - is refused before anything is written; a resumed one is owned first.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from eigen2.algorithms import registry
from eigen2.algorithms.contract import Experiment, Services
from eigen2.config import Config, resolve
from eigen2.errors import ConfigError, Eigen2Error, ResourceError, RunGone, StoppedEarly
from eigen2.harness.console import TrainingConsole
from eigen2.harness.directory import absolute, check_name, create_run, find_run
from eigen2.harness.evaluating import VALIDATION
from eigen2.harness.healing import newest_healed
from eigen2.harness.host import Host
from eigen2.harness.identity import (
    check_config,
    check_data,
    check_resumable,
    identity,
    retired_sentences,
)
from eigen2.harness.loop import restore, train
from eigen2.harness.metadata import processor
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

OPENED = "before training began; `eigen2 train --resume {}` continues it"
EVALUATED = "during the final evaluation; training is complete, and `eigen2 train --resume {}` evaluates it"
"""What is said when a run is stopped at these moments."""
THREADS_PER_CORE = 16
"""More than that is a mistake."""


@dataclass(frozen=True)
class Asked:
    """What was asked for beside the config."""

    log_dir: Path | None = None
    force: bool = False
    """Start a run that the forecast would refuse."""
    split: str = VALIDATION
    """What the run is evaluated on at its end."""
    trusted: Sequence[str] = ()
    """Ids whose modules may be imported."""
    page: MakePage | None = None
    """Makes the page about the run at its end."""


def planned_config(overrides: Sequence[str], log_dir: Path | None) -> tuple[Config, Services, bool]:
    """The config of a run that is only planned, what an algorithm may ask about it, and whether it has a cloud."""
    config = absolute(resolve(overrides, log_dir))
    check_name(config)
    _check_threads(config)
    services = Host(config, typed=typed_words(overrides)).services
    config = registry.algorithm(config.alg.kind).resolve(config, services)
    return config, services, located(config.cloud) is not None


def start_run(
    overrides: Sequence[str],
    console: Console,
    asked: Asked | None = None,
    signals: StopSignals | None = None,
    base: Config | None = None,
    data: Path | None = None,
) -> dict[str, Any]:
    """The config is `base` or that of the presets, with the overrides; `data` is a file in which another run keeps the data.

    `signals` are those already in force."""
    asked = asked or Asked()
    if signals is None:
        with stoppable() as signals:
            return start_run(overrides, console, asked, signals, base, data)
    config = absolute(resolve(overrides, asked.log_dir, base))
    check_name(config)
    _check_threads(config)
    check_trackers(config.track)
    screen = TrainingConsole(console)
    if WANDB in config.track and base is None:
        remember_wandb(screen.say)
    config, cloud = open_cloud(config, screen.say)
    if cloud is not None:
        remember_place(cloud.location, screen.say)
    recorder = Recorder(screen, config.memory.verbose)
    host = Host(
        config, progress=recorder.progress, data=data, typed=typed_words([*overrides, *asked.trusted])
    )
    algorithm = registry.algorithm(config.alg.kind)
    config = algorithm.resolve(config, host.services)
    planner = Planner(config, host.services, cloud is not None)
    if not asked.force:
        planner.require(planner.computed())
    with ExitStack() as holding, ExitStack() as ownership:
        session = _Session(config, cloud, asked, recorder, signals, holding)
        screen.works(f"loading {config.env.label}")
        session.begin_watch()
        with algorithm.open(config, host.services) as experiment:
            facts = experiment.load_dataset()
            own_data = OwnData(config, experiment, None)
            wanted = planner.opened(experiment, own_data.make())
            if not asked.force:
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
            return session.train(run, experiment, None, own_data, facts, ownership)


def resume_run(
    name: str | None,
    overrides: Sequence[str],
    console: Console,
    asked: Asked | None = None,
    signals: StopSignals | None = None,
) -> dict[str, Any]:
    asked = asked or Asked()
    if signals is None:
        with stoppable() as signals:
            return resume_run(name, overrides, console, asked, signals)
    general = resolve([o for o in overrides if o.startswith(("run.root=", "cloud."))], asked.log_dir)
    root, cloud = general.run.root.expanduser(), None
    if name is not None and is_url(name):
        run, cloud = fetch_run(name, root, general.cloud, console)
    else:
        run = find_run(name, root)
    run.typed = typed_words([*overrides, *asked.trusted])
    with giving_back(cloud), run.held():
        try:
            return _resumed(run, cloud, overrides, console, asked, signals)
        except (Eigen2Error, OSError) as error:
            if not isinstance(error, RunGone | StoppedEarly):
                # Half of it was read here and half from what is here now: that is what is wrong.
                run.check_place()
            raise


def _resumed(
    run: Run,
    cloud: Cloud | None,
    overrides: Sequence[str],
    console: Console,
    asked: Asked,
    signals: StopSignals,
) -> dict[str, Any]:
    """Train a run that is here to its end; `cloud` is where it came from, if it came from a bucket."""
    stored = run.read_config()
    config = _placed(absolute(resolve(overrides, asked.log_dir, base=stored)), run)
    check_resumable(stored, config)
    _check_threads(config)
    check_trackers(config.track)
    screen = TrainingConsole(console)
    screen.mention(f"run {run.path}, resumed")
    if WANDB in config.track and any(override.startswith("track=") for override in overrides):
        remember_wandb(screen.say)
    config, cloud = _cloud_of(run, config, cloud, overrides, screen.say)
    recorder = Recorder(screen, config.memory.verbose)
    algorithm = registry.algorithm(config.alg.kind)
    with ExitStack() as holding, ExitStack() as ownership:
        session = _Session(config, cloud, asked, recorder, signals, holding)
        signals.outlook = OPENED.format(run.path)
        screen.works(f"loading step {_step_of(run)}")
        with signals.patiently():
            lock = ownership.enter_context(run.owned())
        session.begin_watch()
        if lock.warning:
            screen.say(lock.warning)
        # A file that is named now is read, whatever the run keeps.
        named = names_own_file(config, overrides)
        recovery = newest_healed(run, not named, screen.say)
        tell_refused(recovery, screen.say)
        checkpoint = recovery.checkpoint
        # A run that was killed in its very first save starts over, with the data that it began with.
        known = checkpoint or _first_state(run)
        if known is not None:
            check_config(run, known.manifest.identity, config)
        keeping = None if named else known
        host = Host(config, run, recorder.progress, None if keeping is None else kept_file(keeping))
        if not asked.force:
            Planner(config, host.services, cloud is not None).require_memory()
        with missing_data_explained(run, keeping), algorithm.open(config, host.services) as experiment:
            facts = {} if checkpoint is not None else experiment.load_dataset()
            rounded = () if known is None else check_data(known.manifest.identity, experiment)
            if checkpoint is not None:
                retired = retired_sentences(run, checkpoint.manifest.identity)
                checkpoint = _noting(checkpoint, (*retired, *rounded))
                facts |= _restored(run, config, experiment, checkpoint, screen.say)
            if run.raw_config() != config.model_dump(mode="json") or not holds(run.config_file):
                run.write_config(config)
            own_data = OwnData(config, experiment, known)
            if named:
                own_data.put_back(run.checkpoints)
            return session.train(run, experiment, checkpoint, own_data, facts, ownership)


class _Session:
    """What a start and a resume share: who listens and shows while the experiment is opened, and how it continues from there.

    `holding` ends after everything else."""

    def __init__(
        self,
        config: Config,
        cloud: Cloud | None,
        asked: Asked,
        recorder: Recorder,
        signals: StopSignals,
        holding: ExitStack,
    ) -> None:
        self.config, self.cloud, self.asked = config, cloud, asked
        self.recorder, self.screen, self.signals, self.holding = recorder, recorder.screen, signals, holding
        self.watch = Watch(config.run, signals, self.screen)
        signals.grace_seconds = config.run.grace_seconds
        holding.callback(self.screen.rests)

    def begin_watch(self) -> None:
        self.holding.enter_context(self.watch)
        self.recorder.heard = self.watch.heard

    def train(
        self,
        run: Run,
        experiment: Experiment,
        checkpoint: Checkpoint | None,
        own_data: OwnData,
        facts: dict[str, Any],
        ownership: ExitStack,
    ) -> dict[str, Any]:
        """Train an owned run to its end, evaluate it and make its page; what can be sent is sent meanwhile."""
        with_page = self.asked.page is not None and self.config.run.report
        with (
            uploading(run, self.cloud, self.screen.console) as uploaded,
            reported(run, self._page, self.screen.say) if with_page else nullcontext(),
        ):
            with self.signals.patiently():
                train(
                    run,
                    self.config,
                    experiment,
                    checkpoint,
                    own_data,
                    self.recorder,
                    self.signals,
                    self.watch,
                    facts,
                )
                ownership.close()
            self.watch.evaluates()
            result = self._evaluate(run, experiment)
            note_actual(run, self.screen.say)
            self.watch.stops()
            if with_page and self.watch.has_room(FILM_MEMORY):
                write_film(run, experiment, self.screen.say)
        return result | uploaded

    def _page(self, path: Path) -> Path:
        """Made when everything else is done, also by a run that was stopped; a signal waits for it."""
        assert self.asked.page is not None
        if not self.watch.has_room(PAGE_MEMORY):
            raise ResourceError("memory is short")
        with self.signals.patiently():
            return self.asked.page(path)

    def _evaluate(self, run: Run, experiment: Experiment) -> dict[str, Any]:
        screen, split = self.screen, self.asked.split
        self.signals.outlook = EVALUATED.format(run.path)
        screen.works(f"evaluating on {split}")
        evaluation = experiment.evaluate(split)
        screen.rests()
        with self.signals.patiently():
            run.add_evaluation(evaluation, screen.say)
            screen.console.print(evaluation.shown, highlight=False)
            screen.say(f"run {run.path}")
        return {"run": str(run.path), "evaluation": evaluation.facts}


def _cloud_of(
    run: Run, config: Config, cloud: Cloud | None, overrides: Sequence[str], say: Callable[[str], None]
) -> tuple[Config, Cloud | None]:
    """Where a resumed run has its copy: where it came from, else where its config says."""
    if cloud is not None:
        config = cloud.settled_in(config)
    else:
        place = located(config.cloud)
        if place is not None and not any(override.startswith("cloud.url=") for override in overrides):
            check_place(place, run)
        config, cloud = open_cloud(config, say)
    if cloud is not None:
        remember_place(cloud.location, say)
    return config, cloud


def _restored(
    run: Run, config: Config, experiment: Experiment, checkpoint: Checkpoint, say: Callable[[str], None]
) -> dict[str, Any]:
    """Put a checkpoint into the experiment; returns what is to be noted in run.json about it."""
    restore(run, config, experiment, checkpoint, say)
    before = checkpoint.manifest.identity.get("processor", processor())
    if before != processor():
        say(f"The run was computed on {before} until now, this is {processor()}: they may round differently.")
    # Checkpoints of format 1 rely on the words of the old config.yaml; from here on they carry their own.
    today = identity(config, experiment) | {"data": checkpoint.manifest.identity["data"]}
    del today["processor"]  # they were computed on one that they do not name
    run.checkpoints.adopt_identity(today)
    # Each damaged file beside the state is named before it is written again.
    found = damaged_files(run, checkpoint.manifest)
    for sentence in found:
        say(f"{sentence}; training does not need it.")
    return {"damage": found} if found else {}


def _noting(checkpoint: Checkpoint, news: tuple[str, ...]) -> Checkpoint:
    """The checkpoint, noting in which ways its training no longer continues exactly; every later checkpoint says so too."""
    inexact = tuple(dict.fromkeys((*checkpoint.manifest.inexact, *news)))
    return replace(checkpoint, manifest=replace(checkpoint.manifest, inexact=inexact))


def _step_of(run: Run) -> int:
    """The newest one that is saved, by its manifest."""
    return max((manifest.step for manifest in run.checkpoints.good().values()), default=0)


def _first_state(run: Run) -> Checkpoint | None:
    """What a run was before its first step, where nothing else was saved."""
    found = run.checkpoints.good().get("init")
    return None if found is None else Checkpoint(found, run.checkpoints.objects)


def _check_threads(config: Config) -> None:
    """Thousands of threads take minutes to start, and gain nothing."""
    cores = os.cpu_count() or 1
    if config.threads > THREADS_PER_CORE * cores:
        raise ConfigError(
            f"threads={config.threads} is far more than the {cores} cores of this machine; use at most {cores}."
        )


def _placed(config: Config, run: Run) -> Config:
    """The config of a run that may have been moved here."""
    return config.model_copy(update={"run": config.run.model_copy(update={"root": run.path.parent})})
