"""Is a run still where it was? A path can be given to another directory while a process works there.

`mv` takes a run away, and one that was deleted may be made anew under the same name by somebody else. Whoever writes
holds the directory open, and looks before each commit whether its path still leads there: one call of stat.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eigen2.errors import RunGone, RunMoved
from eigen2.store.checkpoints import Checkpoints
from eigen2.store.retention import RESUMABLE

Key = tuple[int, int]
"""Device and inode: they name one file as long as it is open."""


class Place:
    """A run directory that is held open; with `lock`, an open lock file in it, that file is what must still be there."""

    def __init__(self, directory: Path, lock: int | None = None) -> None:
        self.directory, self._locked = directory, lock is not None
        self._descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        self._is = _key(os.fstat(self._descriptor))
        self._watched = directory if lock is None else directory / "lock"
        self._watched_is = self._is if lock is None else _key(os.fstat(lock))

    def close(self) -> None:
        os.close(self._descriptor)

    def check(self) -> None:
        """Raise RunGone unless the run is here. An OSError says that the disk cannot tell."""
        if not _leads_to(self._watched, self._watched_is):
            raise self._gone()

    def now(self) -> Path | None:
        """Where the directory is; None when it was deleted, or when that cannot be found out."""
        if _leads_to(self.directory, self._is):
            return self.directory
        try:
            path = Path(os.readlink(f"/proc/self/fd/{self._descriptor}"))
            return path if _leads_to(path, self._is) else None
        except OSError:
            return None

    def _gone(self) -> RunGone:
        now, old = self.now(), self.directory
        if now == old:
            what = f"the lock file of {old} was removed or replaced while this process worked there"
        elif now is not None:
            what = f"{old} was moved to {now} while this process worked there"
        elif _is_deleted(self._descriptor):
            another = ", and the path leads to another run now" if old.exists() else ""
            what = f"{old} was deleted while this process worked there{another}"
        else:
            what = f"{old} was moved or deleted while this process worked there"
        if now is None:
            return RunGone(f"{what}; nothing more is written. Start it again, or restore a copy of it.")
        if not self._locked:
            return RunGone(f"{what}; nothing was written. Use its present path.", now)
        step = _resumable(now)
        if step is None:
            return RunGone(f"{what}; nothing more is written, and no checkpoint is there to resume.", now)
        return RunMoved(
            f"{what}; nothing more is written. Step {step} is saved and `eigen2 train --resume {now}` continues from "
            "there.",
            now,
        )


@contextmanager
def held(directory: Path) -> Iterator[Place]:
    place = Place(directory)
    try:
        yield place
    finally:
        place.close()


def _key(found: os.stat_result) -> Key:
    return found.st_dev, found.st_ino


def _leads_to(path: Path, known: Key) -> bool:
    try:
        return _key(os.stat(path)) == known
    except (FileNotFoundError, NotADirectoryError):
        return False


def _is_deleted(descriptor: int) -> bool:
    try:
        link = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return False
    return os.fstat(descriptor).st_nlink == 0 or link.endswith(" (deleted)")


def _resumable(directory: Path) -> int | None:
    """Step of the newest checkpoint there that a resume could use, by its manifest."""
    good = Checkpoints(directory).good()
    return max((good[name].step for name in RESUMABLE if name in good), default=None)
