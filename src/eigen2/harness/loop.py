"""The life of a run: start or resume, step, log, save, stop in order, finish.

Metrics and other records are appended after each step, then a checkpoint names their sizes; a stop signal lets the
step in progress end within the grace period, commits, and exits 75; the final checkpoint is complete and on disk
before anything else looks at the result.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from eigen2.algorithms.contract import Experiment, Metrics, Trainer
from eigen2.config import Config
from eigen2.errors import (
    DamagedStateError,
    Eigen2Error,
    ResourceError,
    RunGone,
    RunMoved,
    StoppedEarly,
    WorkersLostError,
    is_out_of_memory,
)
from eigen2.harness.checkpointer import Checkpointer
from eigen2.harness.expected import load_state, require_memory, state_bytes
from eigen2.harness.identity import check_identity, identity
from eigen2.harness.journal import Journal
from eigen2.harness.metadata import end_facts, resume_facts, start_facts
from eigen2.harness.own_data import OwnData
from eigen2.harness.recording import Recorder
from eigen2.harness.run import Run
from eigen2.harness.sealed import BEST_AGENT, restore_best_agent
from eigen2.harness.signals import StepDropped, StopSignals
from eigen2.harness.tracking import tracking
from eigen2.harness.watch import Watch
from eigen2.store.checkpoints import Checkpoint


def train(
    run: Run, config: Config, experiment: Experiment, checkpoint: Checkpoint | None,
    own_data: OwnData, recorder: Recorder, signals: StopSignals, watch: Watch, facts: dict[str, Any],
) -> None:  # fmt: skip
    """Train an owned `run` to its end, from the checkpoint that `experiment` holds or from the beginning.

    `own_data` goes into its checkpoints, `facts` about the start into run.json.
    """
    screen, begun = recorder.screen, None if checkpoint is None else checkpoint.manifest
    _note(run, screen.say, **_start_facts(run, config, experiment, checkpoint), **facts)
    if "wandb" in config.track:
        _note(run, screen.say, wandb_id=run.identify())
    try:
        with (
            screen,
            run.journal(None if begun is None else begun.logs) as journal,
            tracking(
                run, config, journal, 0 if begun is None else begun.step, screen.say
            ) as recorder.tracked,
        ):
            _run_to_end(run, config, experiment, checkpoint, own_data, recorder, signals, watch, journal)
    except RunGone as error:
        _note_elsewhere(run, error, screen.say)
        raise
    except Eigen2Error as error:
        status = "stopped" if isinstance(error, StoppedEarly) else "failed"
        _note(run, screen.say, **end_facts(status, str(error), error.exit_code))
        raise
    except BaseException as error:
        _note(run, screen.say, **end_facts("failed", repr(error), Eigen2Error.exit_code))
        raise
    _note(run, screen.say, **end_facts("done", None, 0))


def _run_to_end(
    run: Run, config: Config, experiment: Experiment, checkpoint: Checkpoint | None,
    own_data: OwnData, recorder: Recorder, signals: StopSignals, watch: Watch, journal: Journal,
) -> None:  # fmt: skip
    trainer = experiment.trainer
    start = step = 0 if checkpoint is None else checkpoint.manifest.step
    origin = identity(config, experiment)
    inexact = () if checkpoint is None else checkpoint.manifest.inexact
    checkpointer = Checkpointer(run, config, trainer, origin, own_data, journal, recorder.screen.say, inexact)
    recorder.begin(run, trainer, journal, step, checkpointer.owners)
    watch.trains(run, trainer, journal)
    for sentence in journal.mended:
        recorder.screen.say(sentence)
    metrics: dict[str, float] = {} if checkpoint is None else dict(checkpoint.manifest.metrics)
    try:
        if checkpoint is None:
            journal.event("start", f"run {run.name} begins")
            checkpointer.save(0, metrics, "init")
        elif trainer.done and checkpointer.is_finished(step):
            return
        else:
            _tell_damage(run, trainer, checkpoint, journal, recorder.screen.say)
            journal.event("resume", f"run {run.name} resumes after step {step}")
        dropped = False
        while not trainer.done and signals.received is None:
            taken = _step(trainer, signals)
            if taken is None:
                dropped = True
                break
            step, metrics = step + 1, taken
            recorder.stepped(step, metrics)
            _check_place(run)
            watch.stepped()
            due = step % config.checkpoint.every == 0 or watch.short
            if due and not trainer.done and signals.received is None:
                checkpointer.save(step, metrics)
                recorder.saved()
        watch.stops()
        if trainer.done and not dropped:
            checkpointer.save(step, metrics, "final", wait=True)
            return
        reason = watch.reason(recorder.grown)
        if dropped:
            journal.event("dropped", f"step {step + 1} was dropped before its end")
        if dropped or not watch.has_room(checkpointer.copy_bytes):
            checkpointer.collect()
        else:
            checkpointer.save(step, metrics, wait=True)
    finally:
        watch.leaves()
        recorder.end()
        checkpointer.close()
    safe = start if checkpointer.safe_step is None else checkpointer.safe_step
    raise StoppedEarly(
        f"Stopped by {reason}; step {safe} is saved and `eigen2 train --resume {run.path}` continues from there{watch.hint}."
    )


def _tell_damage(
    run: Run, trainer: Trainer, checkpoint: Checkpoint, journal: Journal, say: Callable[[str], None]
) -> None:
    """What is damaged beside the state does not stop a resume; it is reported before it is overwritten."""
    sentences = list(checkpoint.manifest.inexact)
    for name, wanted in checkpoint.manifest.log_hashes.items():
        short = any(str(run.log(name)) in sentence for sentence in journal.mended)
        if journal.opened.get(name) != wanted and not short:
            sentences.append(
                f"{run.log(name)} is not as the checkpoint left it; `eigen2 repair`, before a resume, looks for a good copy."
            )
    for sentence in sentences:
        say(sentence)
        journal.event("damage", sentence)
    try:
        restore_best_agent(run, trainer, checkpoint.manifest)
    except OSError as error:
        say(f"{run.path / BEST_AGENT} could not be rewritten ({error}).")


def _step(trainer: Trainer, signals: StopSignals) -> dict[str, float] | None:
    """None when the step was dropped; what it had in memory is then free again."""
    try:
        metrics = _undisturbed(trainer, signals)
    except StepDropped:
        signals.step_ends()
        return None
    known = {name: float(value) for name, value in metrics.items()}
    return known | ({"best_score": trainer.best_score} if math.isfinite(trainer.best_score) else {})


def _undisturbed(trainer: Trainer, signals: StopSignals) -> Metrics:
    signals.step_begins()
    try:
        return trainer.step()
    except WorkersLostError as error:
        # A signal to the whole process group ends the workers too: then the step is lost, not the run.
        if signals.received is not None:
            raise StepDropped from error
        raise
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise ResourceError(
            f"A step does not fit into memory ({str(error).splitlines()[0]}); everything up to the last checkpoint is saved. Give "
            "the run more memory and resume it, or start a smaller one: `eigen2 plan` shows what settings need."
        ) from error
    finally:
        signals.step_ends()


def restore(
    run: Run, config: Config, experiment: Experiment, checkpoint: Checkpoint, say: Callable[[str], None]
) -> None:
    """Put a checkpoint's state and replay into a freshly opened experiment; both must belong to it."""
    from eigen2.replay import Replay
    from eigen2.replay.stored import unfolded_bytes

    manifest, trainer = checkpoint.manifest, experiment.trainer
    check_identity(run, manifest.identity, config, experiment)
    require_memory(state_bytes(checkpoint), f"The state of {run.path}")
    load_state(trainer, checkpoint, checkpoint.state())
    if manifest.replay is None:
        return
    with checkpoint.loading():
        require_memory(unfolded_bytes(manifest.replay), f"The replay of {run.path}")
        replay = Replay.restore(manifest.replay, checkpoint.objects.read)
        replay.compress = config.replay.compress
        trainer.use_replay(replay)
    if manifest.replay_step != manifest.step:
        say(
            f"The newest replay is of step {manifest.replay_step} (replay.every): the run continues from step "
            f"{manifest.step} with it, which is not bit-identical to an uninterrupted one."
        )


def _start_facts(
    run: Run, config: Config, experiment: Experiment, checkpoint: Checkpoint | None
) -> dict[str, Any]:
    trainer = experiment.trainer
    if checkpoint is None:
        return start_facts(config, trainer, experiment.data_fingerprint or None)
    return resume_facts(config, trainer, run.metadata(), checkpoint.manifest.step)


def _check_place(run: Run) -> None:
    """Nothing is trained for a run that is gone; a disk that does not answer fails the next save."""
    with suppress(OSError):
        run.check_place()


def _note_elsewhere(run: Run, error: RunGone, say: Callable[[str], None]) -> None:
    """The status of a run that was moved goes into run.json where it is now; its lock moved with it, and is this process's."""
    if isinstance(error, RunMoved) and error.place not in (None, run.path):
        _note(Run(error.place), say, **end_facts("stopped", str(error), error.exit_code))


def _note(run: Run, say: Callable[[str], None], **facts: Any) -> None:
    """Update run.json; a disk that refuses it is reported, and stops nothing."""
    try:
        run.note(**facts)
    except (OSError, DamagedStateError) as error:
        say(f"{run.metadata_file} could not be updated ({error}).")
