"""Checkpoints of a run while it trains: taken at step borders, written in the background.

A full or failing disk, or too little memory for a copy of the state, does not stop training: the last good checkpoint
stays, what happened is said once, and a `best` that could not be written is written with the next save that can.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from eigen2.algorithms.contract import Trainer
from eigen2.config import Config
from eigen2.errors import ResourceError
from eigen2.harness.journal import Journal
from eigen2.harness.own_data import OwnData
from eigen2.harness.run import Run
from eigen2.harness.sealed import BEST_AGENT, copied, sealed_files, write_best_agent
from eigen2.store.background import BackgroundSaver
from eigen2.store.checkpoints import SAVE_FAILURES, NewCheckpoint
from eigen2.store.manifest import Manifest
from eigen2.store.shortage import within_memory


class Checkpointer:
    """Saves one trainer into a run that this process owns."""

    def __init__(
        self, run: Run, config: Config, trainer: Trainer, identity: dict[str, Any], own_data: OwnData,
        journal: Journal, say: Callable[[str], None], inexact: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.run, self.config, self.trainer, self.identity = run, config, trainer, identity
        self.own_data, self.journal, self._say, self.inexact = own_data, journal, say, inexact
        self._sealed = sealed_files(run)
        run.checkpoints.parity = config.checkpoint.parity
        self._saver: BackgroundSaver[Manifest] = BackgroundSaver()
        self._failing = False
        self._owed_best = False
        # After a resume the best so far is already on disk.
        self._best = trainer.best_score
        # A trainer that goes over to another replay must not be resumed with the one before.
        self._saved_replay = self._submitted_replay = trainer.replay
        self._copied_bytes = 0
        self._first: NewCheckpoint | None = None
        """The first state, until it is known to be on disk: a later save makes up for one that failed."""
        self.safe_step: int | None = None
        """Step of the newest checkpoint that this process has committed."""

    def save(self, step: int, metrics: dict[str, float], *roles: str, wait: bool = False) -> None:
        """Take a snapshot now and write it in the background; roles are init and final.

        One that is waited for must succeed.
        """
        # The save before this one must be known to have worked before it is clear whether a `best` is still owed.
        self.collect()
        best = (self.trainer.best_score != self._best or self._owed_best) and "init" not in roles
        self._best, self._owed_best = self.trainer.best_score, best
        try:
            with within_memory(f"The checkpoint of step {step}"):
                self._submit(step, metrics, (*roles, "best") if best else roles)
        except SAVE_FAILURES as error:
            self._failed(error, wait)
            return
        if wait:
            self.collect(must_succeed=True)

    def _submit(self, step: int, metrics: dict[str, float], roles: tuple[str, ...]) -> None:
        from eigen2.store.state import freeze, state_bytes

        trainer = self.trainer
        state = freeze(trainer.state_dict())
        self._copied_bytes = state_bytes(state)
        if "init" in roles:
            self._first = NewCheckpoint(step, state, None, metrics, {}, self.identity, self.own_data.store)
        self.run.check_place()
        logs, hashes = self.journal.extent()
        with_replay = trainer.replay is not None and (
            bool(set(roles) - {"best"})
            or step % self.config.replay.every == 0
            or trainer.replay is not self._saved_replay
        )  # fmt: skip
        self._submitted_replay = trainer.replay if with_replay else self._saved_replay

        weights = copied(trainer.best_weights()) if "best" in roles else None
        replay = trainer.replay.snapshot() if with_replay and trainer.replay is not None else None
        owed = None if "init" in roles else self._first

        def job() -> Manifest:
            try:
                with within_memory(f"The checkpoint of step {step}"):
                    if weights is not None:
                        write_best_agent(self.run, weights)
                        self._sealed |= {BEST_AGENT}
                    if owed is not None:
                        self.run.checkpoints.save_first(owed)
                    new = NewCheckpoint(
                        step, state, replay, metrics, logs, self.identity, self.own_data.store,
                        hashes, tuple(sorted(self._sealed)), self.inexact,
                    )  # fmt: skip
                    saved = self.run.checkpoints.save(new, roles)
                    self.run.committed()
                    return saved
            finally:
                if replay is not None:
                    replay.close()

        try:
            self._saver.submit(job)
        except BaseException:
            if replay is not None:
                replay.close()
            raise

    @property
    def copy_bytes(self) -> int:
        """What a save copies, as far as that is known: the state of the last one."""
        return self._copied_bytes

    def owners(self) -> dict[str, int]:
        """Bytes of the copy that is being written."""
        return {"checkpoint": self._copied_bytes if self._saver.busy else 0}

    def is_finished(self, step: int) -> bool:
        """True when the run's final checkpoint, of this step, is committed."""
        good = self.run.checkpoints.good()
        return all(name in good and good[name].step == step for name in ("final", "latest"))

    def collect(self, must_succeed: bool = False) -> None:
        """Wait for the save in flight and note how it went."""
        try:
            written = self._saver.wait()
        except SAVE_FAILURES as error:
            self._failed(error, must_succeed)
            return
        if written is not None:
            self._owed_best, self._first = False, None
            self._saved_replay = self._submitted_replay
            self.safe_step = written.step
            if self._failing:
                self._failing = False
                self._tell(
                    "save_recovered", f"Checkpoints can be written again; step {written.step} is safe."
                )

    def close(self) -> None:
        """Wait for the save in flight and end its thread."""
        try:
            self.collect()
        finally:
            self._saver.close()

    def _failed(self, error: Exception, must_succeed: bool) -> None:
        # A directory that vanished under a save is no disk that fails.
        with suppress(OSError):
            self.run.check_place()
        if must_succeed:
            raise ResourceError(
                f"The last checkpoint of {self.run.path} could not be written ({error}); the last good one is "
                "untouched. Free some space and run `eigen2 train --resume`."
            ) from error
        if not self._failing:
            self._failing = True
            self._tell(
                "save_failed",
                f"Checkpoints cannot be written ({error}); training continues, and the last good one is kept.",
            )

    def _tell(self, kind: str, message: str) -> None:
        self._say(message)
        self.journal.event(kind, message)
