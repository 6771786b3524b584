"""The user's own data travels with the run: it is stored once, as an object that every checkpoint names.

A run that keeps its data is resumed, evaluated and exported from that object, and the file it came from is never looked
at again; only a resume that names a file reads it, and it must hold the same data.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eigen2.algorithms.contract import Experiment
from eigen2.config import Config
from eigen2.errors import DataError, MissingDataError
from eigen2.harness.run import Run
from eigen2.section import own_file_keys
from eigen2.store.checkpoints import Checkpoint, Checkpoints
from eigen2.store.manifest import OWN_DATA
from eigen2.store.objects import Objects, Ref


class OwnData:
    """An experiment's data as an object of its run: made when it must be stored, from then on known by its name."""

    def __init__(self, config: Config, experiment: Experiment, checkpoint: Checkpoint | None) -> None:
        self._make: Callable[[], bytes | None] = experiment.own_data
        self._ref = None if checkpoint is None else checkpoint.manifest.objects.get(OWN_DATA)
        self._wanted = config.run.keep_data or self._ref is not None
        self._made: bytes | None = None

    def make(self) -> int:
        """Make the file now, for the first save; returns its size."""
        self._made = self._make() if self._wanted else None
        return 0 if self._made is None else len(self._made)

    def store(self, objects: Objects) -> Ref | None:
        """The object, put if it is not there or damaged; None when nothing is to be kept."""
        if self._ref is not None and objects.find(self._ref.hash) is not None:
            return self._ref
        content = (self._made or self._make()) if self._wanted else None
        if content is None:
            return None
        self._ref, self._made = objects.put(content), None
        return self._ref

    def put_back(self, checkpoints: Checkpoints) -> None:
        """Where the run keeps a copy that is missing or damaged, store it again; the data is known to be the same."""
        if self._ref is not None and (ref := self.store(checkpoints.objects)) is not None:
            checkpoints.adopt_own_data(ref)


def names_own_file(config: Config, overrides: Sequence[str]) -> bool:
    """Whether the overrides say where the user's data is."""
    return not own_file_keys(config).isdisjoint(
        override.partition("=")[0].lstrip("+") for override in overrides
    )


@contextmanager
def missing_data_explained(run: Run, checkpoint: Checkpoint | None) -> Iterator[None]:
    """Around the opening of a run that reads the file its config names: says what is missed, and how to name it."""
    try:
        yield
    except MissingDataError as error:
        if checkpoint is None or "data" not in checkpoint.manifest.identity:
            raise
        fingerprint = checkpoint.manifest.identity["data"][:16]
        raise DataError(
            f"{run.path} was trained on {error.value} with fingerprint {fingerprint}, which is not here; "
            f"{error.key}=PATH, added to the command, names the file where it is now, e.g. "
            f"`eigen2 evaluate {run.path} {error.key}=PATH`."
        ) from error


def kept_file(*checkpoints: Checkpoint) -> Path | None:
    """The file in which a run keeps its data, proven, by the first of its checkpoints that names one."""
    return next((file for checkpoint in checkpoints if (file := checkpoint.own_data())), None)
