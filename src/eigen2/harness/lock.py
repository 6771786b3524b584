"""One trainer per run directory.

The kernel's lock (flock) is released when its holder dies, however it dies, so a stale lock file never blocks a
resume on the same machine. The file names the holder, so that a refusal can say who it is.
"""

import errno
import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import psutil

from eigen2.errors import ConfigError, DamagedStateError
from eigen2.harness.place import Place
from eigen2.store.bounded_json import load_table
from eigen2.store.durable import write_all
from eigen2.store.plain_files import open_plain

LONGEST = 4096
"""Bytes of a lock file; those that eigen2 writes are far shorter."""
CLOCK_SECONDS = 60.0
"""By which a clock may be corrected between two readings of it."""


class RunLock:
    """`place` is the directory that the lock was taken in: `place.check()` says whether it is still there."""

    place: Place

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lock"

    def __enter__(self) -> Self:
        try:
            self._file = _open(self.path)
        except (PermissionError, IsADirectoryError) as error:
            raise ConfigError(_cannot_write(self.path.parent, error)) from error
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            raise ConfigError(_cannot_write(self.path.parent, error)) from error
        try:
            self._lock()
            self.place = Place(self.path.parent, self._file.fileno())
        except BaseException:
            self._file.close()
            raise
        try:
            # Between opening and locking, the directory may have been given to somebody else.
            self.place.check()
            self._warn = self._other_host()
            self._sign()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"{self.path.parent} is in use by {_describe(self._holder())}; stop it first."
            ) from error
        except OSError as error:
            raise ConfigError(
                f"{self.path} cannot be locked ({error.strerror}); keep runs on a file system that has locks."
            ) from error

    def _release(self) -> None:
        # On a disk that died, the name of the holder stays in the file: it is then a dead one. Whatever ended the work
        # is what the user must be told.
        with suppress(OSError):
            self._file.truncate(0)
        with suppress(OSError):
            self._file.close()
        self.place.close()

    @property
    def warning(self) -> str | None:
        """Set when the last holder, on another host, never released the lock: it may have died, or the file system
        may not carry locks between hosts."""
        return self._warn

    def _sign(self) -> None:
        """Name the holder in the file. The lock holds without it, so a full disk is a warning, not an end."""
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": int(time.time())}
        try:
            self._file.truncate(0)
            write_all(self._file.fileno(), json.dumps(holder).encode())
        except OSError as error:
            self._warn = f"{self.path} cannot name its holder ({error})."

    def _other_host(self) -> str | None:
        holder = self._holder()
        if holder is None or holder["host"] == socket.gethostname():
            return None
        return (
            f"{self.path} was last held by {_describe(holder)}, which never released it; it is taken over because "
            "no live lock is seen. If that process still runs, stop it."
        )

    def _holder(self) -> dict[str, Any] | None:
        return _holder(os.pread(self._file.fileno(), LONGEST, 0))


Held = Literal["here", "elsewhere", "dead", "nobody"]


def held(directory: Path) -> Held:
    """Who has a run, by the lock file alone, which is not touched: a process that lives here, one of another host (of
    which nothing is known here), one that died without giving it back, or nobody."""
    path = directory / "lock"
    try:
        with open_plain(path) as file:
            holder, found = _holder(file.read(LONGEST)), os.fstat(file.fileno())
    except FileNotFoundError:
        return "nobody"
    if holder is None:
        return "nobody"
    if holder["host"] != socket.gethostname():
        return "elsewhere"
    return "here" if _lives(holder, found) else "dead"


def _lives(holder: dict[str, Any], lock: os.stat_result) -> bool:
    """Whether the process that signed a lock file still has it open: its number may be another's by now, and the file a
    copy of the one that it signed."""
    try:
        process = psutil.Process(holder["pid"])
        if (
            process.status() == psutil.STATUS_ZOMBIE
            or process.create_time() > holder["since"] + CLOCK_SECONDS
        ):
            return False
        descriptors = os.listdir(f"/proc/{holder['pid']}/fd")
    except psutil.NoSuchProcess:
        return False
    except (psutil.AccessDenied, OSError):
        # Somebody else's process, or a system that does not say what is open.
        return psutil.pid_exists(holder["pid"])
    for descriptor in descriptors:
        with suppress(OSError):
            opened = os.stat(f"/proc/{holder['pid']}/fd/{descriptor}")
            if (opened.st_dev, opened.st_ino) == (lock.st_dev, lock.st_ino):
                return True
    return False


def _open(path: Path) -> FileIO:
    """The lock file, made if it is not there; a file that is not a lock is not written to, whatever its name."""
    file = open_plain(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    found = os.fstat(file.fileno())
    signed = found.st_size == 0 or _holder(os.pread(file.fileno(), LONGEST, 0)) is not None
    if found.st_size > LONGEST or (found.st_nlink > 1 and not signed):
        file.close()
        raise DamagedStateError(f"{path} is not a lock file; delete it if nothing else needs it.")
    return file


def _holder(text: bytes) -> dict[str, Any] | None:
    """Who signed a lock file; None when nobody did, or when it cannot be read."""
    try:
        found = load_table(text)
    except ValueError:
        return None
    legible = (
        _is_between(found.get("pid"), 1, 2**31)
        and _is_between(found.get("since"), 0, 2**33)
        and isinstance(found.get("host"), str)
        and found["host"].isprintable()
    )
    return found if legible else None


def _is_between(value: object, first: int, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and first <= value < end


def _cannot_write(directory: Path, error: OSError) -> str:
    return f"{directory} cannot be written ({error.strerror}); make it writable, or copy the run to a place that is."


def _describe(holder: dict[str, Any] | None) -> str:
    if holder is None:
        return "another process"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder["since"]))
    return f"process {holder['pid']} on {holder['host']} (since {since})"
