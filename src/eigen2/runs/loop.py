"""The life of a run: start or resume, step, log, save, stop in order, finish.

metrics and other records are appended after each step, then a checkpoint names their sizes;
a stop signal lets the step in progress end within the grace period, commits, and exits 75;
the final checkpoint is complete and on disk before anything else looks at the result.
"""

import time
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing

from rich.console import Console

from eigen2.config import Config, differences
from eigen2.errors import ConfigError, Eigen2Error, ResourceError, StoppedEarly
from eigen2.replay import Replay
from eigen2.runs.build import Built, build
from eigen2.runs.console import TrainingConsole
from eigen2.runs.directory import LOGS, RunDirectory
from eigen2.runs.journal import Journal, cut_back
from eigen2.runs.lock import RunLock
from eigen2.runs.metadata import describe_start, read_metadata, this_command, update_metadata
from eigen2.runs.saving import RESUMABLE_CHANGES, Saving, config_hash
from eigen2.runs.signals import StepDropped, StopSignals
from eigen2.runs.sources import begin
from eigen2.store.checkpoints import Checkpoint, Checkpoints
from eigen2.store.durable import remove_temporaries


def train(run: RunDirectory, config: Config, console: Console) -> None:
    """Train `run` to its end from its newest good checkpoint, or from the beginning when it has none."""
    with RunLock(run.path) as lock, StopSignals(config.run.grace_seconds) as signals:
        if lock.warning:
            console.print(lock.warning, highlight=False, markup=False, soft_wrap=True)
        screen = TrainingConsole(console, run.name, 0)
        with build(config, screen.phase) as built:
            start = _recover(run, built, console)
            if start is not None and config != run.read_config():
                run.write_config(config)
            _note(run, console, **_start_facts(run, built, start))
            try:
                with screen:
                    if start is None and (data := begin(built)):
                        _note(run, console, **data)
                    _run_to_end(run, built, screen, signals, start)
            except Eigen2Error as error:
                status = "stopped" if isinstance(error, StoppedEarly) else "failed"
                _note(run, console, status=status, reason=str(error))
                raise
            except BaseException as error:
                _note(run, console, status="failed", reason=repr(error))
                raise
            _note(run, console, status="done", reason=None)


def _note(run: RunDirectory, console: Console, **facts: object) -> None:
    """Update run.json; a disk that does not take it is said, and stops nothing."""
    try:
        update_metadata(run, **facts)
    except OSError as error:
        console.print(
            f"{run.metadata_file} could not be updated ({error}).",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _run_to_end(
    run: RunDirectory, built: Built, screen: TrainingConsole, signals: StopSignals, start: int | None
) -> None:
    trainer, config = built.trainer, built.config
    step = start or 0
    screen.steps, screen.step = trainer.steps, step
    with closing(Journal(run.path, LOGS)) as journal:
        saving = Saving(run, config, trainer, journal, built.data_fingerprint, screen.say)
        metrics: dict[str, float] = {}
        try:
            if start is None:
                journal.event("start", f"run {run.name} begins")
                saving.save(0, metrics, first=True)
            elif trainer.done and saving.is_finished(step):
                return
            else:
                journal.event("resume", f"run {run.name} goes on after step {step}")
            while not trainer.done and signals.received is None:
                metrics = _step(built, signals)
                step += 1
                screen.stepped(step, metrics)
                _log(journal, built, screen, step, metrics)
                if step % config.checkpoint.every == 0 and not trainer.done and signals.received is None:
                    saving.save(step, metrics)
            if trainer.done:
                saving.save(step, metrics, final=True)
                return
            saving.save(step, metrics, last=True)
        except StepDropped:
            saving.collect()
            journal.event("dropped", f"step {step + 1} did not end within the grace period and was dropped")
        finally:
            saving.close()
        safe = (start or 0) if saving.safe_step is None else saving.safe_step
        raise StoppedEarly(
            f"Stopped by {signals.received}; step {safe} is saved and `eigen2 train --resume {run.path}` goes on from there."
        )


def _step(built: Built, signals: StopSignals) -> dict[str, float]:
    signals.step_begins()
    try:
        return built.trainer.step()
    except BrokenProcessPool as error:
        # A signal to the whole process group ends the workers too: then the step is lost, not the run.
        if signals.received is not None:
            raise StepDropped from error
        raise ResourceError(
            "A worker process died, most likely killed by the system for lack of memory; everything up to the last "
            "checkpoint is saved. Use fewer workers or cluster=inline and run `eigen2 train --resume`."
        ) from error
    finally:
        signals.step_ends()


def _log(
    journal: Journal, built: Built, screen: TrainingConsole, step: int, metrics: dict[str, float]
) -> None:
    journal.append("metrics", {"step": step, **metrics})
    for name, records in built.trainer.take_records().items():
        for record in records:
            journal.append(name, record)
    journal.append(
        "memory",
        {
            "step": step,
            "time": round(time.time(), 3),
            "seconds": round(screen.seconds, 3),
            "rss_bytes": screen.rss,
            "replay_bytes": built.trainer.replay.ram_bytes,
        },
    )


def _recover(run: RunDirectory, built: Built, console: Console) -> int | None:
    """Load the newest good checkpoint into the trainer; returns its step, or None for a fresh run."""
    checkpoints = Checkpoints(run.path)
    checkpoints.clean()
    remove_temporaries(run.path)
    recovery = checkpoints.newest_good()
    for sentence in recovery.refused:
        console.print(
            f"{sentence}; an older checkpoint is used.", highlight=False, markup=False, soft_wrap=True
        )
    if recovery.checkpoint is None:
        # A run that died before its first checkpoint begins anew, and so do its logs.
        cut_back(run.path, dict.fromkeys(LOGS, 0))
        return None
    restore(built, recovery.checkpoint, console)
    cut_back(run.path, recovery.checkpoint.manifest.logs)
    return recovery.checkpoint.manifest.step


def restore(built: Built, checkpoint: Checkpoint, console: Console) -> None:
    """Put a checkpoint's state and replay into a freshly built trainer."""
    manifest = checkpoint.manifest
    if manifest.data_fingerprint != built.data_fingerprint:
        raise ConfigError(
            f"The run was trained on data with fingerprint {manifest.data_fingerprint[:16]}, the data is now "
            f"{built.data_fingerprint[:16]}; restore the file it was trained on or start a new run."
        )
    if manifest.config_hash != config_hash(built.config):
        raise ConfigError(
            "config.yaml is not the one the checkpoint was made with; restore it or start a new run."
        )
    built.trainer.load_state_dict(checkpoint.state())
    if manifest.replay is not None:
        built.trainer.use_replay(Replay.restore(manifest.replay, checkpoint.replay_blob))
    if manifest.replay_step != manifest.step:
        console.print(
            f"The newest replay is of step {manifest.replay_step} (replay.every): the run goes on from step "
            f"{manifest.step} with it, which is not bit-identical to an uninterrupted one.",
            highlight=False,
            soft_wrap=True,
        )


def check_resumable(old: Config, new: Config) -> None:
    """Refuse overrides that would make the resumed run another run."""
    changed = {key: values for key, values in differences(old, new).items() if key not in RESUMABLE_CHANGES}
    if changed:
        shown = "; ".join(f"{key}: {before} -> {after}" for key, (before, after) in changed.items())
        raise ConfigError(
            f"A resume cannot change what is computed ({shown}). Allowed are: {', '.join(RESUMABLE_CHANGES)}."
        )


def _start_facts(run: RunDirectory, built: Built, start: int | None) -> dict[str, object]:
    facts = describe_start(this_command(), built.data_fingerprint or None)
    if start is None:
        return facts
    earlier = read_metadata(run)
    resumes = [
        *earlier.get("resumes", []),
        {key: facts[key] for key in ("command", "started", "host", "git")},
    ]
    return {"status": "running", "reason": None, "resumes": resumes}
