"""Append-only JSON-lines logs, readable while training runs.

The size of each log is written into every checkpoint; a resume cuts the logs back to it, so that they tell one
uninterrupted story.
"""

import errno
import json
import math
import os
import threading
import time
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

from eigen2.errors import DamagedStateError
from eigen2.store.bounded_json import load_table
from eigen2.store.durable import open_log
from eigen2.store.layout import LINE_LIMIT
from eigen2.store.plain_files import open_plain

LASTING = ("stall", "memory_short", "memory_full", "exit")
"""Events that a resume keeps, although they came after its checkpoint."""


class Journal:
    """Appends records to <directory>/<name>.jsonl, one JSON object per line.

    A full disk does not lose records: they wait in memory and are written, in order, when there is room again. Any
    thread may append.
    """

    def __init__(self, directory: Path, names: tuple[str, ...]) -> None:
        self._files = {name: open_log(directory / f"{name}.jsonl") for name in names}
        self._waiting: dict[str, bytes] = dict.fromkeys(names, b"")
        self._lock = threading.RLock()

    def append(self, name: str, record: Mapping[str, Any]) -> None:
        if name not in self._waiting:
            raise ValueError(f"there is no log called {name!r}, only {', '.join(self._waiting)}")
        line = json.dumps(plain(record), allow_nan=False, separators=(",", ":")) + "\n"
        with self._lock:
            self._waiting[name] += line.encode()
            try:
                self._flush(name)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                    raise

    def event(self, kind: str, message: str, **facts: Any) -> None:
        self.append("events", {"time": round(time.time(), 3), "kind": kind, "message": message, **facts})

    def sizes(self) -> dict[str, int]:
        """Bytes of each log now, complete and durable; raises OSError while the disk does not take them."""
        with self._lock:
            for name in self._files:
                self._flush(name)
            found = {name: os.fstat(file.fileno()).st_size for name, file in self._files.items()}
        # Not under the lock: a slow disk keeps nobody from appending.
        for file in self._files.values():
            os.fsync(file.fileno())
        return found

    def close(self) -> None:
        with self._lock:
            for file in self._files.values():
                file.close()

    def _flush(self, name: str) -> None:
        file, data = self._files[name], self._waiting[name]
        if not data:
            return
        size = os.fstat(file.fileno()).st_size
        try:
            written = file.write(data)
        except OSError:
            file.truncate(size)
            raise
        if written != len(data):
            file.truncate(size)
            raise OSError(errno.ENOSPC, f"no room for {name}.jsonl")
        self._waiting[name] = b""


def cut_back(directory: Path, sizes: Mapping[str, int]) -> None:
    """Drop what was logged after the checkpoint that recorded `sizes`."""
    for name, size in sizes.items():
        path = directory / f"{name}.jsonl"
        if path.exists() and path.stat().st_size > size:
            with open_log(path) as file:
                file.truncate(size)
                os.fsync(file.fileno())


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
        end = os.fstat(file.fileno()).st_size
        tail = os.pread(file.fileno(), LINE_LIMIT, max(0, end - LINE_LIMIT))
    complete, _, _ = tail.rpartition(b"\n")
    line = complete.rpartition(b"\n")[2]
    return load_table(line) if line else {}


def _record(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        return load_table(line)
    except ValueError as error:
        raise DamagedStateError(f"{path} is damaged: line {number} is no record ({error}).") from error


def plain(value: Any) -> Any:
    """JSON has no NaN or infinity: they become null; NumPy's and torch's numbers become plain ones."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return plain(value.item()) if hasattr(value, "item") else value
