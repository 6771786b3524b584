"""Append-only JSON-lines logs, readable while training runs.

The size of each log is written into every checkpoint; a resume cuts the logs back to it, so that they show
one uninterrupted run.
"""

import errno
import hashlib
import json
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from eigen2.errors import DamagedStateError, ResourceError
from eigen2.store.bounded_json import load_table
from eigen2.store.durable import Buffer, Fence, cut_torn_line, open_log, write_stream
from eigen2.store.layout import LINE_LIMIT
from eigen2.store.plain_files import open_plain

LASTING = ("stall", "memory_short", "memory_full", "exit", "report_failed")
"""Events that a resume keeps, although they came after its checkpoint."""
MOST_WAITING = 64 << 20
"""Bytes of records of one log that wait in memory for a disk that refuses them."""
MOST_UNSYNCED = 4 << 20
"""Bytes of one log that are kept in memory until they are known to be on the disk."""
COPIED = 1 << 20
TAIL = 16 << 10
"""Bytes at the end of a log in which its last record usually is."""


class Journal:
    """Appends records to <directory>/<name>.jsonl, one JSON object per line.

    A full or failing disk does not lose records: they wait in memory and are written, in order, when it takes them
    again. `fence` is called before a log is replaced, and raises when `directory` is no longer the one that was meant.
    Any thread may append.
    """

    def __init__(self, directory: Path, names: tuple[str, ...], fence: Fence = lambda: None) -> None:
        self._lock = threading.RLock()
        self._logs = {name: _Log(directory / f"{name}.jsonl", self._lock, fence) for name in names}
        self.mended: tuple[str, ...] = ()
        """What was wrong with the logs before they were opened, a sentence each."""
        self.opened = self._hashes()
        """SHA-256 of each log before anything was added to it."""

    def append(self, name: str, record: Mapping[str, Any]) -> None:
        if name not in self._logs:
            raise ValueError(f"there is no log called {name!r}, only {', '.join(self._logs)}")
        line = json.dumps(plain(record), allow_nan=False, separators=(",", ":")) + "\n"
        with self._lock:
            self._logs[name].add(line.encode())

    def event(self, kind: str, message: str, **facts: Any) -> None:
        self.append("events", {"time": round(time.time(), 3), "kind": kind, "message": message, **facts})

    def sizes(self) -> dict[str, int]:
        """Bytes of each log now, complete and durable; raises OSError while the disk refuses them."""
        return self.extent()[0]

    def extent(self) -> tuple[dict[str, int], dict[str, str]]:
        """The same, and the SHA-256 of just these bytes."""
        with self._lock:
            found = {name: log.flush() for name, log in self._logs.items()}
            hashes = self._hashes()
        # Not under the lock: a slow disk keeps nobody from appending.
        for log in self._logs.values():
            log.sync()
        return found, hashes

    def _hashes(self) -> dict[str, str]:
        return {name: log.digest.hexdigest() for name, log in self._logs.items()}

    def close(self) -> None:
        with self._lock:
            for log in self._logs.values():
                log.close()


class _Log:
    """One file. What came after its last good fsync is kept: a failed fsync may have dropped it from the file."""

    def __init__(self, path: Path, lock: threading.RLock, fence: Fence) -> None:
        self.path, self._lock, self._fence = path, lock, fence
        self._file = open_log(path)
        self._synced = os.fstat(self._file.fileno()).st_size
        self.digest = _digest(path)
        """Of everything that is written: what is there is read once, then each line is hashed as it goes."""
        self._tail = bytearray()
        """Everything after `_synced`, of which the first `_written` bytes are in the file."""
        self._written = 0
        self._patience = 0
        """After a failure: how much waits before the disk is tried again, so that trying stays cheap."""
        self._distrusted = False
        """Set when the file may not hold what was written to it; it is then written again."""

    def add(self, line: bytes) -> None:
        self._tail += line
        if len(self._tail) - self._written > MOST_WAITING:
            raise ResourceError(
                f"{self.path} could not be written for so long that {MOST_WAITING >> 20} MB of records wait in memory; "
                "mend the disk or free some space: `eigen2 train --resume` continues from the last checkpoint."
            )
        if len(self._tail) < self._patience:
            return
        try:
            self.flush()
            if len(self._tail) > MOST_UNSYNCED:
                self.sync()
        except OSError:
            # The next save meets the same disk, and says so.
            self._patience = len(self._tail) * 9 // 8

    def flush(self) -> int:
        """Write what waits, whole or not at all; returns the size of the file then."""
        if self._distrusted:
            self._write_anew()
        data = bytes(self._tail[self._written :])
        size = os.fstat(self._file.fileno()).st_size
        if not data:
            return size
        try:
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, f"no room for {self.path.name}")
        except OSError:
            try:
                self._file.truncate(size)
            except OSError:
                self._distrusted = True
            raise
        self._written, self._patience = len(self._tail), 0
        self.digest.update(data)
        return size + len(data)

    def sync(self) -> None:
        """Make durable what is written."""
        with self._lock:
            end, descriptor = self._synced + self._written, self._file.fileno()
        try:
            os.fsync(descriptor)
        except OSError:
            self._distrusted = True
            raise
        with self._lock:
            # Another thread may have been faster, and got further.
            done = max(0, end - self._synced)
            del self._tail[:done]
            self._synced += done
            self._written -= done

    def close(self) -> None:
        self._file.close()

    def _write_anew(self) -> None:
        """A fsync that failed once may succeed the next time without having written anything: only a file whose every
        byte was written since can be believed."""
        write_stream(self.path, self._pieces(), self._synced + len(self._tail), self._fence)
        fresh = open_log(self.path)
        with suppress(OSError):
            self._file.close()
        self.digest.update(self._tail[self._written :])
        self._file, self._distrusted, self._patience = fresh, False, 0
        self._synced, self._written = os.fstat(fresh.fileno()).st_size, 0
        self._tail.clear()

    def _pieces(self) -> Iterator[Buffer]:
        with open_plain(self.path) as file:
            left = self._synced
            while left and (piece := file.read(min(left, COPIED))):
                left -= len(piece)
                yield piece
        yield bytes(self._tail)


def _digest(path: Path) -> "hashlib._Hash":
    with open_plain(path) as raw, BufferedReader(raw) as file:
        return hashlib.file_digest(file, hashlib.sha256)


def cut_back(directory: Path, sizes: Mapping[str, int], fence: Fence = lambda: None) -> list[str]:
    """Drop what was logged after the checkpoint that recorded `sizes`; returns a sentence for each log that does not
    reach as far."""
    short = []
    for name, size in sizes.items():
        path = directory / f"{name}.jsonl"
        found = path.stat().st_size if path.exists() else 0
        if found > size:
            with open_log(path) as file:
                fence()
                file.truncate(size)
                os.fsync(file.fileno())
        elif found < size:
            short.append(
                f"{path} has lost {size - found:,} of {size:,} bytes; the run continues without them."
            )
    return short


def mend_lines(directory: Path, names: tuple[str, ...], fence: Fence = lambda: None) -> list[str]:
    """Cut off last lines that a killed writer did not finish; returns a sentence for each."""
    torn = {name: cut_torn_line(directory / f"{name}.jsonl", fence) for name in names}
    return [torn_sentence(directory / f"{name}.jsonl", count) for name, count in torn.items() if count]


def torn_sentence(path: Path, count: int) -> str:
    return f"{path} ended in a line that was not written to its end; its {count:,} bytes are cut off."


def lasting_events(path: Path, size: int) -> list[dict[str, Any]]:
    """Events after the first `size` bytes that are about the process, not about the steps that a resume takes again."""
    if not path.exists():
        return []
    found = []
    with open_plain(path) as raw, BufferedReader(raw) as file:
        file.seek(size)
        while (line := file.readline(LINE_LIMIT)).endswith(b"\n"):
            try:
                record = load_table(line)
            except ValueError:  # Not to be read, and cut away with the rest.
                continue
            if record.get("kind") in LASTING:
                found.append(record)
    return found


def read_log(path: Path) -> list[dict[str, Any]]:
    """All complete records; a last line that is still being written is left out."""
    if not path.exists():
        return []
    records = []
    with open_plain(path) as raw, BufferedReader(raw) as file:
        number = 0
        while (line := file.readline(LINE_LIMIT)).endswith(b"\n"):
            number += 1
            records.append(_record(path, number, line))
        if len(line) == LINE_LIMIT:
            raise DamagedStateError(f"{path} is damaged: line {number + 1} is longer than any record.")
    return records


def last_record(path: Path) -> dict[str, Any]:
    """The last complete record, read from the end of the file; empty when there is none."""
    if not path.exists():
        return {}
    with open_plain(path) as file:
        line = _last_line(file.fileno(), os.fstat(file.fileno()).st_size)
    return load_table(line) if line else {}


def _last_line(descriptor: int, end: int) -> bytes:
    """The last complete line, of which few are longer than a few kilobytes."""
    for size in (TAIL, LINE_LIMIT):
        start = max(0, end - size)
        complete, _, _ = os.pread(descriptor, end - start, start).rpartition(b"\n")
        _, newline, line = complete.rpartition(b"\n")
        if newline or start == 0:
            break
    return line


def _record(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        return load_table(line)
    except ValueError as error:
        raise DamagedStateError(
            f"{path} is damaged: line {number} is no record ({error}); restore the file from a copy of the run, or "
            "delete the line."
        ) from error


def plain(value: Any) -> Any:
    """JSON has no NaN or infinity: they become null; NumPy's and torch's numbers become plain ones."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return plain(value.item()) if hasattr(value, "item") else value
