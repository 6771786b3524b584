"""One machine at a time works on a run in a bucket.

`lease.json` says who, and is written again while the work goes on. One that was not renewed for its `seconds`, by the
server's own clock, has expired and may be taken over. A machine that finds somebody else's name in its lease has lost
it, and stops uploading: what it holds stays on its own disk.
"""

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from eigen2.cloud.bucket import Bucket, Corrupted, NotThere, Refused, Unreachable
from eigen2.cloud.words import legible
from eigen2.errors import ConfigError

NAME = "lease.json"
LIMIT = 4096


class LeaseLost(ConfigError):
    """Another machine has taken the run over."""


@dataclass(frozen=True)
class Holder:
    """Who signed a lease; illegible parts read as unknown."""

    token: str
    host: str
    pid: int
    directory: str
    seconds: float
    kernel: str = ""
    """Which running system the process number belongs to; empty where that cannot be told."""
    started: float = 0.0
    """When the process began, by the clock of its machine."""

    def is_dead(self) -> bool:
        """Whether the process is known to have ended: it ran on this very system, where nobody has its number now."""
        if not self.kernel or self.kernel != running_system():
            return False
        try:
            process = psutil.Process(self.pid)
            return process.status() == psutil.STATUS_ZOMBIE or abs(process.create_time() - self.started) > 1.0
        except psutil.NoSuchProcess:
            return True
        except psutil.AccessDenied:
            return False

    def words(self) -> str:
        return f"process {self.pid} on {self.host} ({self.directory})"


class Lease:
    """The lease of one run; `key` is where it lies in the bucket."""

    def __init__(self, bucket: Bucket, run: str, directory: Path, seconds: float) -> None:
        self.bucket, self.run, self.seconds = bucket, run, seconds
        self.key = f"{run}/{NAME}"
        self.me = Holder(
            secrets.token_hex(16), socket.gethostname(), os.getpid(), str(directory.absolute()), seconds,
            running_system(), psutil.Process().create_time(),
        )  # fmt: skip
        self._confirmed = -float("inf")
        self._stop = threading.Event()
        self._keeper: threading.Thread | None = None
        self._lost: Callable[[str], None] = lambda sentence: None
        self._writing = threading.Lock()
        self.held = False

    def acquire(self, now: datetime, same_place_is_dead: bool) -> None:
        """Take the lease or say who has it. `now` is the server's time.

        `same_place_is_dead`: this process has the local lock of the run directory, so that a lease that names the same
        directory of the same host belongs to a process that was killed.
        """
        if not self.bucket.put_if_absent(self.key, self._text()):
            entry = self.bucket.head(self.key)
            other = self._read()
            if entry is not None and other is not None and other.token != self.me.token:
                same_place = (other.host, other.directory) == (self.me.host, self.me.directory)
                left = entry.modified + timedelta(seconds=other.seconds) - now
                dead = other.is_dead() or (same_place and same_place_is_dead)
                if left > timedelta(0) and not dead:
                    raise ConfigError(
                        f"{self.run} is being worked on by {other.words()}, which renewed its lease "
                        f"{_ago(now - entry.modified)}; stop it first, or wait: a lease that is not renewed expires, "
                        f"this one in {max(1, round(left.total_seconds()))} s."
                    )
                self.bucket.delete(self.key)
                self.bucket.put_if_absent(self.key, self._text())
        self.held = True
        self.confirm(0)

    def confirm(self, age: float | None = None) -> None:
        """Raise LeaseLost unless the lease was ours within the last `age` seconds (half of its term)."""
        if time.monotonic() - self._confirmed <= (self.seconds / 2 if age is None else age):
            return
        with self._writing:
            other = self._read()
            if other is None:
                self.bucket.put_if_absent(self.key, self._text())
                other = self._read()
            if other is None or other.token != self.me.token:
                self.held = False
                taken = "another machine" if other is None else other.words()
                raise LeaseLost(f"{self.run} was taken over by {taken}; nothing more is uploaded from here.")
            self._confirmed = time.monotonic()

    def keep(self, lost: Callable[[str], None]) -> None:
        """Renew in the background until `release`; `lost` hears when somebody else has it, in place of whoever heard
        it before."""
        self._lost = lost
        if self._keeper is not None:
            return

        def renew() -> None:
            while not self._stop.wait(self.seconds / 3):
                try:
                    self.confirm(0)
                    with self._writing:
                        if not self._stop.is_set():
                            self.bucket.put(self.key, self._text())
                except LeaseLost as error:
                    self._lost(str(error))
                    return
                except (Unreachable, Refused, NotThere, Corrupted):
                    # The uploader meets the same failure, and says so.
                    continue

        self._keeper = threading.Thread(target=renew, name="lease", daemon=True)
        self._keeper.start()

    def release(self) -> None:
        """Release it, if it is still ours."""
        self._stop.set()
        if not self.held:
            return
        with self._writing:
            self.held = False
            other = self._read()
            if other is not None and other.token == self.me.token:
                self.bucket.delete(self.key)

    def _text(self) -> bytes:
        return json.dumps({**vars(self.me), "renewed": int(time.time())}).encode()

    def _read(self) -> Holder | None:
        return read_holder(self.bucket, self.run, self.seconds)


def read_holder(bucket: Bucket, run: str, seconds: float = 0.0) -> Holder | None:
    """Who holds the lease of a run; None when nobody does."""
    try:
        found: Any = json.loads(bucket.get(f"{run}/{NAME}", LIMIT))
    except NotThere:
        return None
    except (ValueError, RecursionError):
        found = {}
    values = found if isinstance(found, dict) else {}
    term = values.get("seconds")
    return Holder(
        token=str(values.get("token", "")),
        host=legible(str(values.get("host", "an unknown machine"))[:200]),
        pid=pid if isinstance(pid := values.get("pid"), int) and 0 < pid < 2**31 else 0,
        directory=legible(str(values.get("directory", "?"))[:1000]),
        seconds=float(term) if isinstance(term, int | float) and 0 < term < 86400 else max(seconds, 60.0),
        kernel=str(values.get("kernel", "")),
        started=float(began)
        if isinstance(began := values.get("started"), int | float) and 0 < began < 1e12
        else 0.0,
    )


def running_system() -> str:
    """This boot of this machine, seen from this container: where a process number means one process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _ago(past: timedelta) -> str:
    seconds = round(past.total_seconds())
    return "just now" if seconds < 1 else f"{seconds} s ago"
