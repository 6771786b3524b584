"""`train` and `evaluate`: from words on the command line to a run that has been trained or evaluated.

A run is opened once. A new one is opened before its directory exists, so that everything that can be refused - data,
sizes, room on the disk - is refused before anything is written; a resumed one is owned first.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from eigen2.algorithms import registry
from eigen2.algorithms.contract import Evaluation, Experiment, Progress, Services, no_progress
from eigen2.config import Config, resolve
from eigen2.errors import ConfigError
from eigen2.harness.checkpointer import needed_bytes
from eigen2.harness.console import TrainingConsole
from eigen2.harness.datasets import RunDatasets
from eigen2.harness.directory import check_name, create_run, find_run
from eigen2.harness.identity import check_identity, check_resumable, identity
from eigen2.harness.loop import restore, train
from eigen2.harness.run import Run
from eigen2.harness.signals import StopSignals
from eigen2.store.checkpoints import Checkpoint, Recovery
from eigen2.store.disk import ensure_room
from eigen2.store.state import fingerprint


class Host:
    """The harness as an algorithm sees it; the run appears when its directory does."""

    def __init__(self, config: Config, run: Run | None = None, progress: Progress = no_progress) -> None:
        self.run = run
        self.services = Services(
            datasets=RunDatasets(config.run.root),
            fingerprint=fingerprint,
            progress=progress,
            evaluations=lambda: [] if self.run is None else self.run.evaluations(),
            metadata=lambda: {} if self.run is None else {"name": self.run.name, **self.run.metadata()},
        )


def start_run(overrides: Sequence[str], console: Console, log_dir: Path | None = None) -> dict[str, Any]:
    config = _absolute(resolve(overrides, log_dir))
    check_name(config)
    screen = TrainingConsole(console)
    host = Host(config, progress=screen.phase)
    algorithm = registry.algorithm(config.alg.kind)
    config = algorithm.resolve(config, host.services)
    with ExitStack() as ownership:
        signals = ownership.enter_context(StopSignals(config.run.grace_seconds))
        with algorithm.open(config, host.services) as experiment:
            room = needed_bytes(experiment.trainer)
            facts = experiment.load_dataset()
            ensure_room(config.run.root, max(room, needed_bytes(experiment.trainer)))
            host.run = run = create_run(config)
            screen.say(f"run {run.path}")
            ownership.enter_context(run.owned())
            train(run, config, experiment, None, screen, signals, facts)
            ownership.close()
            return _conclude(run, experiment, screen)


def resume_run(
    name: str | None, overrides: Sequence[str], console: Console, log_dir: Path | None = None
) -> dict[str, Any]:
    root = resolve([o for o in overrides if o.startswith("run.root=")], log_dir).run.root
    run = find_run(name, root.expanduser())
    stored = run.read_config()
    config = _absolute(resolve(overrides, log_dir, base=stored))
    check_resumable(stored, config)
    screen = TrainingConsole(console)
    screen.say(f"run {run.path}, resumed")
    host = Host(config, run, screen.phase)
    algorithm = registry.algorithm(config.alg.kind)
    with ExitStack() as ownership:
        lock = ownership.enter_context(run.owned())
        signals = ownership.enter_context(StopSignals(config.run.grace_seconds))
        if lock.warning:
            screen.say(lock.warning)
        recovery = run.checkpoints.newest_good()
        _tell_refused(recovery, screen.say)
        checkpoint = recovery.checkpoint
        with algorithm.open(config, host.services) as experiment:
            facts = {} if checkpoint is not None else experiment.load_dataset()
            if checkpoint is not None:
                restore(run, config, experiment, checkpoint, screen.say)
                # Checkpoints of format 1 rely on the words of the old config.yaml; from here on they carry their own.
                run.checkpoints.adopt_identity(identity(config, experiment.data_fingerprint))
            if run.raw_config() != config.model_dump(mode="json"):
                run.write_config(config)
            train(run, config, experiment, checkpoint, screen, signals, facts)
            ownership.close()
            return _conclude(run, experiment, screen)


def evaluate_run(run: Run, split: str, say: Callable[[str], None]) -> Evaluation:
    """The champion of a run's newest good checkpoint on `split`; counted and stored with the run."""
    if split not in ("validation", "holdout"):
        raise ConfigError(f"--split is {split!r}; it must be validation or holdout.")
    with opened(run, say) as experiment:
        evaluation = experiment.evaluate(split)
    run.add_evaluation(evaluation)
    return evaluation


@contextmanager
def opened(run: Run, say: Callable[[str], None]) -> Iterator[Experiment]:
    """A run's experiment with the networks of its newest good checkpoint, to be looked at; its replay is not read."""
    config = run.read_config()
    recovery, state = run.checkpoints.read_newest(Checkpoint.state)
    _tell_refused(recovery, say)
    if recovery.checkpoint is None or state is None:
        raise ConfigError(f"{run.path} has no checkpoint yet.")
    with registry.algorithm(config.alg.kind).open(config, Host(config, run).services) as experiment:
        check_identity(run, recovery.checkpoint.manifest.identity, config, experiment.data_fingerprint)
        experiment.trainer.load_state_dict(state)
        yield experiment


def _tell_refused(recovery: Recovery, say: Callable[[str], None]) -> None:
    """Name each newer checkpoint that cannot be used."""
    for sentence in recovery.refused:
        say(f"{sentence}; an older checkpoint is used.")


def _absolute(config: Config) -> Config:
    root = Path(os.path.abspath(config.run.root.expanduser()))
    run = config.run.model_copy(update={"root": root})
    return config.model_copy(update={"run": run, "env": config.env.absolute()})


def _conclude(run: Run, experiment: Experiment, screen: TrainingConsole) -> dict[str, Any]:
    evaluation = experiment.evaluate("holdout")
    run.add_evaluation(evaluation)
    screen.console.print(evaluation.shown, highlight=False)
    screen.say(f"run {run.path}")
    return {"run": str(run.path), "evaluation": evaluation.facts}
