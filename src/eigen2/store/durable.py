"""Writing files so that a power cut leaves either the old content or the new one, and the new one stays.

A name is made durable in four steps: write under a temporary name, fsync the file, rename, fsync the directory.
A failed fsync is never retried on the same file: the kernel may have dropped the pages and would report success.
"""

import errno
import fcntl
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import TypeAlias

from eigen2.store.plain_files import open_plain

LINE_BYTES = 1 << 16
"""Read at a time while the end of the last complete line is looked for."""
_ADDING = os.O_RDWR | os.O_APPEND | os.O_CREAT
Buffer: TypeAlias = bytes | bytearray | memoryview
Fence: TypeAlias = Callable[[], None]
"""Raises when a path leads elsewhere than it did; called once the file is open and before it counts, so that nothing goes into
a directory that took the place of the one that was meant."""

PIECE = 1 << 20
TEMPORARY = ".incoming-"
"""Prefix of every temporary name; a leftover means a writer was killed, and holds nothing anyone relies on."""


def sync_directory(directory: Path) -> None:
    """Make the names inside `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Create `directory` and its parents, each one durably."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    sync_directory(directory.parent)


def make_subdirectory(directory: Path) -> None:
    """Create `directory` durably, but not its parent: what has vanished is not made again."""
    if not directory.is_dir():
        directory.mkdir(exist_ok=True)
        sync_directory(directory.parent)


def write_temporary(directory: Path, chunks: Iterable[Buffer]) -> Path:
    """A new fsynced file in `directory` under a temporary name; nothing is left behind when writing fails."""
    path = directory / f"{TEMPORARY}{secrets.token_hex(8)}"
    try:
        with open(path, "xb", buffering=0) as file:
            for chunk in chunks:
                write_all(file.fileno(), chunk)
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def write_atomically(path: Path, content: bytes, fence: Fence = lambda: None) -> None:
    """Replace `path` by `content`: readers and crashes see the old file or the new one, never a part."""
    write_stream(path, [content], len(content), fence)


def write_stream(path: Path, pieces: Iterable[Buffer], limit: int, fence: Fence = lambda: None) -> None:
    """Replace `path` by the concatenation of `pieces`, atomically; more than `limit` bytes are an OSError."""

    def limited() -> Iterator[Buffer]:
        size = 0
        for piece in pieces:
            size += memoryview(piece).nbytes
            if size > limit:
                raise OSError(errno.EFBIG, f"more than {limit:,} bytes came for {path.name}")
            yield piece

    fence()
    temporary = write_temporary(path.parent, limited())
    try:
        # Once it is written: in a directory that takes this one's place from here on, there is nothing to rename.
        fence()
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_new(path: Path, content: bytes) -> bool:
    """Create `path` with `content`, durably; False when it exists already, which is then untouched."""
    temporary = write_temporary(path.parent, [content])
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    sync_directory(path.parent)
    return True


def append(path: Path, content: bytes) -> None:
    """Add `content` to the end of a file, durably, whole or not at all; the file is made if it is not there."""
    with _end_of(path) as descriptor:
        _append(path, descriptor, os.fstat(descriptor).st_size, content)


def open_log(path: Path) -> FileIO:
    """A file to be appended to or cut, made if it is not there. Nothing but this file changes: it is not opened through
    a link, and one that has a second name (a hard link) becomes a file of its own first."""
    try:
        shared = path.lstat().st_nlink > 1
    except FileNotFoundError:
        shared = False
    if shared:
        with open_plain(path) as file:
            _make_own(path, file)
    return open_plain(path, _ADDING)


def _make_own(path: Path, file: FileIO) -> None:
    """Put a copy of the open `file` at `path`; its other names keep the file."""
    write_stream(path, iter(lambda: file.read(PIECE), b""), os.fstat(file.fileno()).st_size)


def append_line(path: Path, line: bytes, fence: Fence = lambda: None) -> int:
    """Add a line to a log that several processes may write, durably, whole or not at all.

    Returns the bytes of a torn line, left by a writer that was killed, that were cut off first.
    """
    with _end_of(path) as descriptor:
        fence()
        size = os.fstat(descriptor).st_size
        complete = _complete(descriptor, size)
        if complete < size:
            os.ftruncate(descriptor, complete)
        _append(path, descriptor, complete, line)
    return size - complete


def cut_torn_line(path: Path, fence: Fence = lambda: None) -> int:
    """Cut off a last line that was not written to its end; returns its bytes, 0 when there is none."""
    if not path.exists():
        return 0
    with _end_of(path) as descriptor:
        fence()
        size = os.fstat(descriptor).st_size
        complete = _complete(descriptor, size)
        if complete < size:
            os.ftruncate(descriptor, complete)
            os.fsync(descriptor)
    return size - complete


@contextmanager
def _end_of(path: Path) -> Iterator[int]:
    """The file, open to be added to, and locked: whoever sees a torn line there knows that nobody is writing it."""
    own = False
    while True:
        with open_plain(path, _ADDING) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_at(file, path):
                continue
            # Under the lock: what another process adds meanwhile must not be left in the file of the other names.
            if os.fstat(file.fileno()).st_nlink > 1 and not own:
                _make_own(path, file)
                own = True
                continue
            yield file.fileno()
            return


def _is_at(file: FileIO, path: Path) -> bool:
    """False when another file took its place while its lock was waited for."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except FileNotFoundError:
        return False


def rewrite(path: Path, edit: Callable[[bytes], bytes | None]) -> None:
    """Replace a log that others may add lines to by what `edit` makes of it, None for nothing; no line of theirs is lost."""
    with _end_of(path) as descriptor:
        size = os.fstat(descriptor).st_size
        content = edit(os.pread(descriptor, size, 0))
        if content is not None:
            write_atomically(path, content)


def _append(path: Path, descriptor: int, size: int, content: bytes) -> None:
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
        if size == 0:
            sync_directory(path.parent)
    except BaseException:
        # What is not durable must not be seen either. If the disk does not even take that, a torn line is left, which
        # the next writer cuts.
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def _complete(descriptor: int, size: int) -> int:
    """Bytes up to the end of the last complete line."""
    end = size
    while end > 0:
        start = max(0, end - LINE_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def remove_temporaries(directory: Path) -> int:
    """Delete what a killed writer left in `directory`. Only the owner of the run's lock may call this.

    Writers leave files; a directory of such a name is somebody else's.
    """
    leftovers = [path for path in directory.glob(f"{TEMPORARY}*") if path.is_symlink() or not path.is_dir()]
    for leftover in leftovers:
        leftover.unlink()
    return len(leftovers)


def write_all(descriptor: int, chunk: Buffer) -> None:
    """os.write may write less than it was given, for instance when the disk is nearly full."""
    if not memoryview(chunk).nbytes:
        return
    view = memoryview(chunk).cast("B")
    while view:
        view = view[os.write(descriptor, view) :]
