"""Content-addressed objects: immutable blobs in root/ab/cdef..., named by the SHA-256 of their bytes.

Writing the same content twice costs nothing, a partial object is never visible under its name, and every read
proves itself against the name. One process writes and collects garbage (the owner of the run's lock), any number may
read, and a guest may add objects: while one of them does, nothing is collected.
"""

import errno
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from eigen2.errors import DamagedStateError
from eigen2.store.durable import (
    Buffer,
    make_subdirectory,
    remove_temporaries,
    sync_directory,
    write_temporary,
)
from eigen2.store.plain_files import check_kind, open_below, open_directory, open_plain

READ_BYTES = 1 << 20
PATIENCE = 2.0
"""Seconds that a reader waits for a collection of garbage to end."""
REMEDY = "restore the file from a copy of the run or resume from another checkpoint"
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Ref:
    """The name of an object and how long it is."""

    hash: str
    size: int


def reference(chunks: Iterable[Buffer]) -> Ref:
    """The Ref under which the concatenation of `chunks` would be stored."""
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        digest.update(chunk)
        size += memoryview(chunk).nbytes
    return Ref(digest.hexdigest(), size)


def _shared(file: FileIO) -> bool:
    """Take a shared lock. Garbage is collected in no time, but the process that does it may have been stopped."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        except OSError:
            return False
        else:
            return True


class Objects:
    """The objects below one directory, which is created on the first `put`, but not its parent.

    `fence` is called before anything is changed, and raises when the directory is no longer the one that was meant.
    """

    def __init__(self, root: Path, fence: Callable[[], None] = lambda: None) -> None:
        self.root, self.fence, self._top = root, fence, str(root)
        self.lock = root.with_name(f"{root.name}.lock")
        self._proven: dict[str, int] = {}
        """Sizes of the objects this process wrote or read back; others are read once before they are relied on."""
        self._durable: set[Path] = set()
        """Directories whose present entries are known to survive a power cut."""
        self._touched: set[Path] = set()
        """Directories that must be fsynced before anything may name their objects."""
        self._batches = 0

    def path(self, name: str) -> Path:
        _check_name(name)
        return Path(self._top, name[:2], name[2:])

    def put(self, data: Buffer | Sequence[Buffer]) -> Ref:
        """Store a buffer, or several in a row, durably (at the end of the surrounding batch, if there is one).

        It is hashed first and written only when it is new.
        """
        chunks = [data] if isinstance(data, (bytes, bytearray, memoryview)) else data
        ref = reference(chunks)
        if self._good(ref.hash, ref.size) is None:
            self._make_root()
            self._publish(write_temporary(self.root, chunks), ref)
        return self._relied_on(ref)

    def receive(self, ref: Ref, pieces: Iterable[Buffer]) -> None:
        """Store an object that comes from elsewhere; it appears only if its pieces are what `ref` says."""
        digest, size = hashlib.sha256(), 0

        def proven() -> Iterator[Buffer]:
            nonlocal size
            for piece in pieces:
                size += memoryview(piece).nbytes
                if size > ref.size:
                    break
                digest.update(piece)
                yield piece
            if size != ref.size or digest.hexdigest() != ref.hash:
                raise DamagedStateError(f"object {ref.hash[:16]}... is damaged where it comes from")

        self._make_root()
        self._publish(write_temporary(self.root, proven()), ref)
        self._relied_on(ref)

    def find(self, name: str) -> Ref | None:
        """The Ref of an object that is here and good, as durable as if it were put now; None: it has to be put."""
        ref = self._good(name)
        return None if ref is None else self._relied_on(ref)

    @contextmanager
    def guest(self) -> Iterator[None]:
        """Inside, a process that does not own the run may put objects and say who needs them."""
        self._make_root()
        # A file, not the directory itself: network file systems lock only what is open for writing.
        with open_plain(self.lock, os.O_RDWR | os.O_CREAT) as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    @contextmanager
    def reader(self) -> Iterator[bool]:
        """Inside, nothing is collected: what a manifest names now can be read, however slow the disk.

        False where that cannot be had: in a place that may not be written, or without locks. Whoever reads there may
        find that an object was collected meanwhile, and looks again.
        """
        file = self._lock_file()
        if file is None:
            yield False
            return
        with file:
            yield _shared(file)

    def _lock_file(self) -> FileIO | None:
        # Read-only, so that it can be had where nothing may be written; made only where there is something to read.
        for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT):
            try:
                if self.root.is_dir():
                    return open_plain(self.lock, flags)
            except OSError:
                continue
        return None

    @contextmanager
    def without_guests(self) -> Iterator[bool]:
        """True if no guest is at work; then none begins inside."""
        if not self.root.is_dir():
            yield True
            return
        with open_plain(self.lock, os.O_RDWR | os.O_CREAT) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Inside, `put` defers the fsync of directories; leaving without an error makes all names durable."""
        self._batches += 1
        try:
            yield
        finally:
            self._batches -= 1
        if not self._batches:
            self._sync()

    def read(self, name: str, size: int | None = None) -> bytes:
        """The object's bytes, proven against its name; one that is not `size` long, if that is known, is not read."""
        with _Readable(self, name), self._opened(name) as file:
            self._check_length(name, file, size)
            data = file.readall()
        self._prove(name, hashlib.sha256(data).hexdigest(), len(data))
        return data

    def check(self, name: str, size: int | None = None) -> int:
        """Prove the object against its name without holding it in memory; returns its size. One that is not `size` long, if
        that is known, is not read: a file full of holes has any length."""
        digest, found = hashlib.sha256(), 0
        with _Readable(self, name), self._opened(name) as file:
            self._check_length(name, file, size)
            while chunk := file.read(READ_BYTES):
                digest.update(chunk)
                found += len(chunk)
        self._prove(name, digest.hexdigest(), found)
        return found

    def size(self, name: str) -> int:
        """Its length as it lies there; 0 when it does not."""
        try:
            return self.path(name).stat().st_size
        except FileNotFoundError:
            return 0

    def delete(self, *names: str) -> None:
        """Delete objects of the directory that is here now, whatever takes its path meanwhile; nothing is deleted through
        a link."""
        with open_directory(self.root) as root:
            # After opening: the directory that is known to be the right one is the one that is open.
            self.fence()
            for name in names:
                self._proven.pop(name, None)
                path = self.path(name)
                with suppress(FileNotFoundError), open_directory(path.parent, root) as directory:
                    os.unlink(path.name, dir_fd=directory)

    def list(self) -> Iterator[str]:
        """Names of all objects, in order."""
        check_kind(self.root, directory=True)
        for directory in sorted(self.root.glob("[0-9a-f][0-9a-f]")):
            check_kind(directory, directory=True)
            for path in sorted(directory.iterdir()):
                if _HASH.fullmatch(name := directory.name + path.name):
                    yield name

    def strangers(self) -> Iterator[Path]:
        """Files below the root that are no objects: leftovers of a killed writer, or somebody else's."""
        for path in sorted(self.root.rglob("*")):
            if not path.is_dir() and not _HASH.fullmatch(path.parent.name + path.name):
                yield path

    def clean(self) -> int:
        """Remove the temporaries of a killed writer. Only the owner of the run's lock may call this."""
        return remove_temporaries(self.root)

    def _make_root(self) -> None:
        self.fence()
        if not check_kind(self.root, directory=True):
            make_subdirectory(self.root)

    def _good(self, name: str, size: int | None = None) -> Ref | None:
        """The Ref of an object that is here and good; one that this process never saw is read and hashed once."""
        try:
            found = os.lstat(self.path(name)).st_size
            return Ref(name, found if self._proven.get(name) == found else self.check(name, size))
        except (FileNotFoundError, DamagedStateError):
            return None

    def _publish(self, temporary: Path, ref: Ref) -> None:
        path = self.path(ref.hash)
        directory = path.parent
        try:
            if not check_kind(directory, directory=True):
                directory.mkdir(exist_ok=True)
                self._touch(self.root)
            self.fence()
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._durable.discard(directory)
        self._proven[ref.hash] = ref.size

    def _relied_on(self, ref: Ref) -> Ref:
        self._touch(self.path(ref.hash).parent)
        if not self._batches:
            self._sync()
        return ref

    def _touch(self, directory: Path) -> None:
        """A name that was there already may come from a killed process that never fsynced its directory."""
        if directory == self.root:
            self._durable.discard(directory)
        elif self.root not in self._durable:
            self._touched.add(self.root)
        if directory not in self._durable:
            self._touched.add(directory)

    def _sync(self) -> None:
        # A directory leaves the set only after its fsync succeeded, so a failed one is repeated by the next batch.
        for directory in sorted(self._touched):
            sync_directory(directory)
            self._touched.discard(directory)
            self._durable.add(directory)

    def _opened(self, name: str) -> FileIO:
        _check_name(name)
        return open_below(self._top, name[:2], name[2:])

    def _check_length(self, name: str, file: FileIO, size: int | None) -> None:
        if size is not None and (found := os.fstat(file.fileno()).st_size) != size:
            raise DamagedStateError(
                f"{self.path(name)} is damaged: it is {found:,} bytes long, not {size:,} as its checkpoint says; {REMEDY}"
            )

    def _prove(self, name: str, found: str, size: int) -> None:
        if found != name:
            self._proven.pop(name, None)
            raise DamagedStateError(
                f"{self.path(name)} is damaged: its content hashes to {found[:16]}..., not to its name; {REMEDY}"
            )
        self._proven[name] = size


def _check_name(name: str) -> None:
    if not _HASH.fullmatch(name):
        raise ValueError(f"{name!r} is no object name: 64 lower-case hex digits are expected")


class _Readable:
    """A missing file or a bad sector is damage, and is reported as such; other failures pass through.

    A class, because every object is read inside one: a generator costs as much as opening the file.
    """

    def __init__(self, objects: Objects, name: str) -> None:
        self._objects, self._name = objects, name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.EIO):
            fact = "is missing" if error.errno == errno.ENOENT else "cannot be read from its disk"
            raise DamagedStateError(f"{self._objects.path(self._name)} {fact}; {REMEDY}") from error
