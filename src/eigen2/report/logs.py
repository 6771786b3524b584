"""A log that grows while it is looked at: columns of its records, of which only the new end is read each time."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eigen2.errors import DamagedStateError

LARGEST = 1 << 30
"""Bytes of a log that are read at most."""

MOST_CELLS = 100_000_000

Record = dict[str, Any]


class GrowingLog:
    """`row` makes of a record what becomes a row; a value that a record lacks is None."""

    def __init__(self, path: Path, row: Callable[[Record], Record] = dict) -> None:
        self.path, self._row = path, row
        self._forget()

    def _forget(self) -> None:
        self.columns: dict[str, list[Any]] = {}
        self.count = self.bad = 0
        self._offset, self._file = 0, (0, 0)

    def refresh(self) -> bool:
        """Read what was added; True when something was. One that was cut back or replaced is read anew.

        A line that is no record does not hide the others: it is counted in `bad`.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except FileNotFoundError:
            changed = self.count > 0
            self._forget()
            return changed
        with open(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST:
                raise DamagedStateError(
                    f"{self.path.name} is no log: no regular file, or above {LARGEST >> 20} MiB"
                )
            if self._file != (facts.st_dev, facts.st_ino) or facts.st_size < self._offset:
                self._forget()
                self._file = (facts.st_dev, facts.st_ino)
            file.seek(self._offset)
            new = file.read(facts.st_size - self._offset)
        whole = new[: new.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            self._add(line)
        return bool(whole)

    def _add(self, line: bytes) -> None:
        try:
            row = self._row(dict(json.loads(line)))
        except (ValueError, TypeError, RecursionError):
            self.bad += 1
            return
        if len(self.columns.keys() | row.keys()) * (self.count + 1) > MOST_CELLS:
            # Every name is a column as long as the log: a new one in every line would need the square of its length.
            self.bad += 1
            return
        for name, value in row.items():
            if name not in self.columns:
                self.columns[name] = [None] * self.count
            self.columns[name].append(value)
        self.count += 1
        for name in self.columns.keys() - row.keys():
            self.columns[name].append(None)

    def records(self) -> list[Record]:
        """Rows as dicts, without the values that are not there."""
        names = list(self.columns)
        return [
            {name: value for name, value in zip(names, values, strict=True) if value is not None}
            for values in zip(*self.columns.values(), strict=True)
        ]
