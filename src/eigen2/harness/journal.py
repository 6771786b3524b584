"""Append-only JSON-lines logs, readable while training runs.

The size of each log is written into every checkpoint; a resume cuts the logs back to it, so that they tell one
uninterrupted story.
"""

import errno
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eigen2.errors import DamagedStateError


class Journal:
    """Appends records to <directory>/<name>.jsonl, one JSON object per line.

    A full disk does not lose records: they wait in memory and are written, in order, when there is room again.
    """

    def __init__(self, directory: Path, names: tuple[str, ...]) -> None:
        self._files = {name: open(directory / f"{name}.jsonl", "ab", buffering=0) for name in names}  # noqa: SIM115
        self._waiting: dict[str, bytes] = dict.fromkeys(names, b"")

    def append(self, name: str, record: Mapping[str, Any]) -> None:
        if name not in self._waiting:
            raise ValueError(f"there is no log called {name!r}, only {', '.join(self._waiting)}")
        line = json.dumps(plain(record), allow_nan=False, separators=(",", ":")) + "\n"
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
        for name, file in self._files.items():
            self._flush(name)
            os.fsync(file.fileno())
        return {name: os.fstat(file.fileno()).st_size for name, file in self._files.items()}

    def close(self) -> None:
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
            with open(path, "r+b") as file:
                file.truncate(size)
                os.fsync(file.fileno())


def read_log(path: Path) -> list[dict[str, Any]]:
    """All complete records; a last line that is still being written is left out."""
    if not path.exists():
        return []
    content = path.read_bytes()
    records = []
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        try:
            records.append(dict(json.loads(line)))
        except (ValueError, TypeError, RecursionError) as error:
            raise DamagedStateError(f"{path} is damaged: line {number} is no record ({error}).") from error
    return records


def plain(value: Any) -> Any:
    """JSON has no NaN or infinity: they become null; NumPy's and torch's numbers become plain ones."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return plain(value.item()) if hasattr(value, "item") else value
