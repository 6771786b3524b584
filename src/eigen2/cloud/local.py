"""A directory as a bucket: plain files that people and other programs read.

Written as checkpoints are: under a temporary name, fsynced, read back, renamed. A power cut leaves the old object or
the new one under a key, never a part, so that what a listing shows can be relied on.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from eigen2.cloud.bucket import Bucket, Corrupted, Entry, NotThere, Source
from eigen2.cloud.failures import Failures, NoBucket
from eigen2.cloud.keys import checked
from eigen2.cloud.location import Location
from eigen2.cloud.pieces import PIECE, Sent, pieces, sha256
from eigen2.errors import ConfigError
from eigen2.store.durable import TEMPORARY, make_directory, sync_directory, write_temporary
from eigen2.store.plain_files import check_kind, open_plain

READ = 2**20
FORBIDDEN = {
    errno.EACCES,
    errno.EEXIST,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}


class LocalBucket(Bucket):
    def __init__(self, location: Location) -> None:
        self._location = location
        self._directory = Path(location.bucket)
        self._root = self._directory / location.prefix
        self._failures = Failures(location, "the path and its permissions")

    def renew(self) -> None:
        """A directory asks for no credentials."""

    def put(
        self, key: str, source: Source | bytes, spend: Callable[[int], None] = lambda count: None
    ) -> None:
        path = self._path(key)
        sent = Sent(source, PIECE, spend)
        with self._translated("put", key, sent):
            temporary = self._written(path, sent)
            try:
                self._compare(key, temporary, source)
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            sync_directory(path.parent)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        path = self._path(key)
        with self._translated("put", key):
            temporary = self._written(path, Sent(data, PIECE, lambda count: None))
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            finally:
                temporary.unlink()
            sync_directory(path.parent)
        return True

    def read(self, key: str) -> Iterator[bytes]:
        path = self._path(key)
        with self._translated("get", key), open_plain(path) as file:
            while chunk := file.read(READ):
                yield chunk

    def head(self, key: str) -> Entry | None:
        path = self._path(key)
        try:
            with self._translated("look up", key):
                return self._entry(path) if path.is_file() else None
        except NoBucket:
            raise
        except NotThere:
            return None

    def list(self, prefix: str = "") -> Iterator[Entry]:
        with self._translated("list", None):
            self._directory.stat()
            yield from self._walk(self._below(prefix))

    def names(self, prefix: str = "") -> Iterator[str]:
        """A directory that holds no file is no name: a bucket does not know empty directories."""
        with self._translated("list", None):
            self._directory.stat()
            for entry in _entries(self._below(prefix)):
                if not entry.is_dir() or next(self._walk(Path(entry.path)), None) is not None:
                    yield entry.name

    def delete(self, key: str) -> None:
        path = self._path(key)
        try:
            with self._translated("delete", key):
                self._directory.stat()
                path.unlink()
        except NoBucket:
            raise
        except NotThere:
            return

    def _written(self, path: Path, sent: Sent) -> Path:
        if not self._directory.is_dir():
            # Above the directory nothing is made: a missing parent is a disk that is not mounted, or a wrong name.
            self._directory.mkdir(exist_ok=True)
            sync_directory(self._directory.parent)
        make_directory(path.parent)
        return write_temporary(path.parent, sent)

    def _compare(self, key: str, temporary: Path, source: Source | bytes) -> None:
        with open(temporary, "rb", buffering=0) as file:
            stored = sha256(iter(lambda: file.read(READ), b""))
        if stored != sha256(pieces(source, READ)):
            raise Corrupted(f"{self._location.url}/{key} differs from what was written; check the disk.")

    def _walk(self, directory: Path) -> Iterator[Entry]:
        for entry in sorted(_entries(directory), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path))
            else:
                check_kind(Path(entry.path))
                yield self._entry(Path(entry.path))

    def _entry(self, path: Path) -> Entry:
        found = path.stat()
        return Entry(
            path.relative_to(self._root).as_posix(),
            found.st_size,
            datetime.fromtimestamp(found.st_mtime, UTC),
        )

    def _path(self, key: str) -> Path:
        if Path(checked(key)).name.startswith(TEMPORARY):
            raise ConfigError(f"{key!r} begins like a file that is still being written; rename it.")
        # A link inside a run could lead out of the bucket; that a run or the bucket itself is one is its owner's choice.
        run, *below = key.split("/")[:-1] or [""]
        place = self._root / run
        for part in below:
            check_kind(place := place / part, directory=True)
        return self._root / key

    def _below(self, prefix: str) -> Path:
        return self._root / checked(prefix.rstrip("/")) if prefix else self._root

    @contextmanager
    def _translated(self, verb: str, key: str | None, sent: Sent | None = None) -> Iterator[None]:
        action = f"{verb} {key}" if key is not None else verb
        try:
            yield
        except OSError as failure:
            if sent is not None and sent.failure is not None:
                raise
            words = failure.strerror or type(failure).__name__
            if failure.errno == errno.ENOENT:
                there = self._directory.is_dir() and key is not None
                raise self._failures.answered(action, key if there else None, 404) from failure
            if failure.errno in FORBIDDEN:
                raise self._failures.refused(action, words) from failure
            raise self._failures.unanswered(action, words) from failure


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    """What a listing shows: no half-written files, and nothing for a directory that is not there."""
    try:
        with os.scandir(directory) as found:
            return [entry for entry in found if not entry.name.startswith(TEMPORARY)]
    except FileNotFoundError:
        return []
