"""Checkpoints of a run while it trains: taken at step borders, written in the background.

A full or failing disk does not stop training: the last good checkpoint stays, what happened is said once, and a
`best` that could not be written is written with the next save that can.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eigen2.config import Config
from eigen2.errors import ResourceError
from eigen2.runs.directory import RunDirectory
from eigen2.runs.journal import Journal
from eigen2.runs.trainer import Trainer
from eigen2.store.background import BackgroundSaver
from eigen2.store.checkpoints import SAVE_FAILURES, Checkpoints
from eigen2.store.disk import predicted_bytes
from eigen2.store.durable import write_atomically
from eigen2.store.manifest import Manifest
from eigen2.store.state import freeze, state_bytes

RESUMABLE_CHANGES = (
    "alg.generations", "alg.iterations", "checkpoint.every", "replay.every", "replay.compress", "run.root",
    "run.name", "run.grace_seconds", "cluster", "workers",
)  # fmt: skip
"""Keys that may differ between a run and its resume without changing what is computed."""


@dataclass
class Saving:
    """Owns the checkpoints of one run under its lock."""

    run: RunDirectory
    config: Config
    trainer: Trainer
    journal: Journal
    data_fingerprint: str
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self.checkpoints = Checkpoints(self.run.path)
        self.saver: BackgroundSaver[Manifest] = BackgroundSaver()
        self._failing = False
        self._owed_best = False
        # After a resume the best so far is already on disk.
        self._best = self.trainer.best_score
        # A trainer that goes over to another replay must not be resumed with the one before.
        self._saved_replay = self._submitted_replay = self.trainer.replay
        self.safe_step: int | None = None
        """Step of the newest checkpoint that this process has committed."""

    def save(
        self,
        step: int,
        metrics: dict[str, float],
        *,
        first: bool = False,
        final: bool = False,
        last: bool = False,
    ) -> None:
        """Take a snapshot now and write it in the background.

        The `final` one of a run and the `last` one before a stop are waited for and must succeed.
        """
        # The save before this one must be known to have worked before it is clear whether a `best` is still owed.
        self.collect()
        best = self.trainer.best_score != self._best or self._owed_best
        self._best = self.trainer.best_score
        try:
            logs = self.journal.sizes()
        except OSError as error:
            self._owed_best = best and not first
            self._failed(error, final or last)
            return
        with_replay = (
            final
            or first
            or step % self.config.replay.every == 0
            or self.trainer.replay is not self._saved_replay
        )
        self._submitted_replay = self.trainer.replay if with_replay else self._saved_replay
        state = freeze(self.trainer.state_dict())
        replay = self.trainer.replay.snapshot() if with_replay else None
        weights = self.trainer.best_weights() if best and not first else None

        def job() -> Manifest:
            try:
                if weights is not None:
                    write_atomically(self.run.path / "best_agent.safetensors", _safetensors(weights))
                return self.checkpoints.save(
                    step, state, replay=replay, first=first, best=best and not first, final=final,
                    metrics=metrics, logs=logs, config_hash=config_hash(self.config),
                    data_fingerprint=self.data_fingerprint,
                )  # fmt: skip
            finally:
                if replay is not None:
                    replay.close()

        self._owed_best = best and not first
        self.saver.submit(job)
        if final or last:
            self.collect(must_succeed=True)

    def is_finished(self, step: int) -> bool:
        """True when the run's final checkpoint, of this step, is committed."""
        names = ("final", "latest")
        return set(names) <= set(self.checkpoints.names()) and all(
            self.checkpoints.load(name).manifest.step == step for name in names
        )

    def collect(self, must_succeed: bool = False) -> None:
        """Wait for the save in flight and note how it went."""
        try:
            written = self.saver.wait()
        except SAVE_FAILURES as error:
            self._failed(error, must_succeed)
            return
        if written is not None:
            self._owed_best = False
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
            self.saver.close()

    def _failed(self, error: Exception, must_succeed: bool) -> None:
        if must_succeed:
            raise ResourceError(
                f"The last checkpoint of {self.run.path} could not be written ({error}); the last good one is "
                "untouched. Free some space and run `eigen2 train --resume`."
            ) from error
        if not self._failing:
            self._failing = True
            self._tell(
                "save_failed",
                f"Checkpoints cannot be written ({error}); training goes on, the last good one stands.",
            )

    def _tell(self, kind: str, message: str) -> None:
        self.say(message)
        self.journal.event(kind, message)


def needed_bytes(trainer: Trainer) -> int:
    """Upper bound of what the checkpoints of a run take on disk."""
    replay = trainer.replay.capacity * trainer.replay.ring.layout.nbytes
    return predicted_bytes(state_bytes(trainer.state_dict()), replay)


def config_hash(config: Config) -> str:
    """Hash of every key that decides what is computed."""
    values = config.model_dump(mode="json")
    for key in RESUMABLE_CHANGES:
        section, _, name = key.rpartition(".")
        (values.get(section, {}) if section else values).pop(name, None)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _safetensors(weights: dict[str, Any]) -> bytes:
    from safetensors.torch import save

    return save(weights)
