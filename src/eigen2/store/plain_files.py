"""Opening what may come from a stranger: plain files only, never through a link, never more than is expected.

A run directory is copied, unpacked and downloaded like any other; what lies in it is data. A link could lead a write
out of it, a pipe or a device never ends. So every file of a run is opened here: the last part of its path is not
followed if it is a link, and what is opened must be a plain file.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from eigen2.errors import DamagedStateError

_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A pipe that nobody writes to, opened without O_NONBLOCK, waits for ever."""
_A_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
_REFUSALS = (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENOTDIR, errno.ENODEV, errno.EOPNOTSUPP)
"""What opening a link, a pipe, a socket or a directory fails with."""
_KINDS = {
    stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


def open_plain(path: Path, flags: int = os.O_RDONLY) -> FileIO:
    """The plain file at `path`, unbuffered."""
    return _plain(_open(path, flags, None, path), flags, path)


def open_below(root: str, directory: str, name: str) -> FileIO:
    """The plain file root/directory/name; none of the three is followed if it is a link.

    Every object of a run is read through here, so nothing is computed that only a refusal needs.
    """
    above = _open(root, _A_DIRECTORY, None, root)
    try:
        below = _open(directory, _A_DIRECTORY, above, root, directory)
    finally:
        os.close(above)
    try:
        return _plain(
            _open(name, os.O_RDONLY, below, root, directory, name), os.O_RDONLY, root, directory, name
        )
    finally:
        os.close(below)


def _open(name: Path | str, flags: int, below: int | None, *place: Path | str) -> int:
    """A descriptor of what `name` is, in the open directory `below` if there is one; `place` is for the sentence."""
    try:
        return os.open(name, flags | _CAREFULLY, 0o644, dir_fd=below)
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        raise not_plain(Path(*place), "a directory" if flags & os.O_DIRECTORY else "a plain file") from error


def _plain(descriptor: int, flags: int, *place: Path | str) -> FileIO:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise not_plain(Path(*place), "a plain file")
    return FileIO(descriptor, "r" if flags & os.O_ACCMODE == os.O_RDONLY else "r+")


def read_plain(path: Path, limit: int) -> bytes:
    """The content of a plain file, which must not be longer than `limit`."""
    with open_plain(path) as file:
        check_size(path, os.fstat(file.fileno()).st_size, limit)
        return file.readall()


def check_size(path: Path, size: int, limit: int) -> None:
    if size > limit:
        raise DamagedStateError(f"{path} is {size:,} bytes long; at most {limit:,} are expected there.")


@contextmanager
def open_directory(path: Path, below: int | None = None) -> Iterator[int]:
    """A descriptor of a directory that is no link; with `below`, an open one, its name is looked up there."""
    descriptor = _open(path if below is None else path.name, _A_DIRECTORY, below, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def check_kind(path: Path, directory: bool = False) -> bool:
    """Refuse a link, or anything else, in the place of a plain file or of a directory; False when nothing is there."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if not (stat.S_ISDIR(mode) if directory else stat.S_ISREG(mode)):
        raise not_plain(path, "a directory" if directory else "a plain file")
    return True


def not_plain(path: Path, wanted: str) -> DamagedStateError:
    try:
        kind = _KINDS.get(stat.S_IFMT(path.lstat().st_mode), "something else")
    except OSError:
        kind = "something else"
    return DamagedStateError(
        f"{path} is {kind}, not {wanted}; a run consists of its own files alone and is not used like this. "
        "Put the real thing there, or delete it."
    )
