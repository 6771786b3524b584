"""One trainer per run directory.

The kernel's lock (flock) is released when its holder dies, however it dies, so a stale lock file never blocks a
resume on the same machine. The file names the holder, so that a refusal can say who it is.
"""

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from eigen2.errors import ConfigError


class RunLock:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "lock"

    def __enter__(self) -> Self:
        self._file = open(self.path, "a+", encoding="utf-8")  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            holder = _holder(self._file.read())
            self._file.close()
            raise ConfigError(
                f"{self.path.parent} is being trained by {_describe(holder)}; stop it first."
            ) from error
        self._warn = self._other_host()
        self._file.truncate(0)
        self._sign()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.truncate(0)
        self._file.close()

    @property
    def warning(self) -> str | None:
        """Set when the last holder, on another host, never released the lock: it may have died, or the file system
        may not carry locks between hosts."""
        return self._warn

    def _sign(self) -> None:
        """Name the holder in the file. The lock holds without it, so a full disk is a warning, not an end."""
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": int(time.time())}
        try:
            os.write(self._file.fileno(), json.dumps(holder).encode())
        except OSError as error:
            self._warn = f"{self.path} cannot name its holder ({error})."

    def _other_host(self) -> str | None:
        self._file.seek(0)
        holder = _holder(self._file.read())
        if holder is None or holder["host"] == socket.gethostname():
            return None
        return (
            f"{self.path} was last held by {_describe(holder)}, which never released it; it is taken over because "
            "no live lock is seen. If that process still runs, stop it."
        )


def dead_holder(directory: Path) -> bool:
    """True when the lock file names a process of this host that no longer lives: it was killed while training."""
    path = directory / "lock"
    holder = _holder(path.read_text(encoding="utf-8", errors="replace")) if path.exists() else None
    return (
        holder is not None and holder["host"] == socket.gethostname() and not psutil.pid_exists(holder["pid"])
    )


def _holder(text: str) -> dict[str, Any] | None:
    """Who signed a lock file; None when nobody did, or not legibly."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return None
    legible = (
        isinstance(found, dict) and isinstance(found.get("pid"), int) and {"host", "since"} <= found.keys()
    )
    return found if legible else None


def _describe(holder: dict[str, Any] | None) -> str:
    if holder is None:
        return "another process"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder["since"]))
    return f"process {holder['pid']} on {holder['host']} (since {since})"
