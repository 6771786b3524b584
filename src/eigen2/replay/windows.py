"""Large observation fields, kept outside the packed records and named there by a reference.

Rows (along the first axis, or as the field says) are kept once for the whole run and a window is a stretch of row numbers. If the first 256
windows shrink by less than 1.5, rows do not repeat in this environment, and from then on windows are compressed one by
one instead. References below zero are compressed windows, the others lie in extents.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.replay.compressed import CompressedWindows
from eigen2.replay.extents import Extents
from eigen2.replay.rows import RowTable, Words, word_type
from eigen2.replay.schema import SMALLEST_ROW, Field
from eigen2.replay.segments import Segment
from eigen2.replay.snapshot import Loader
from eigen2.replay.stored import damaged

TRIAL_WINDOWS = 256
TRIAL_RATIO = 1.5
FORGET_EVERY = 64
EXTENTS = "tape"
"""What format 1 calls the extents in a manifest."""


class WindowStore:
    """All windows ``[length, ...]`` of one field."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.length, self.row_bytes = field.window
        self.rows = RowTable(self.row_bytes, np.dtype(field.dtype).itemsize)
        self.extents = Extents(self.length)
        self.compressed = CompressedWindows(field.nbytes, np.dtype(field.dtype).itemsize)
        self.windows = 0
        self.row_wise = self.row_bytes >= SMALLEST_ROW
        self._head = 0

    @property
    def used_bytes(self) -> int:
        return self.rows.used_bytes + self.extents.used_bytes + self.compressed.used_bytes

    def put(self, stream: int, window: npt.NDArray[Any], record: int) -> int:
        """Keep a stream's next window at least as long as `record` lives; returns its reference."""
        array = np.ascontiguousarray(window, self.field.dtype)
        rows = array.reshape(self.length, -1).view(word_type(self.row_bytes))
        newest = self.extents.newest(stream)
        if newest is not None and self._is(rows, newest):
            self.extents.keep(newest, record)
            return newest
        if self.row_wise and self.windows == TRIAL_WINDOWS:
            self.row_wise = self.windows * self.field.nbytes >= TRIAL_RATIO * self.rows.bytes_ever
        self.windows += 1
        if self.row_wise:
            return self._put_rows(stream, rows, newest, record)
        self.extents.close(stream)
        if self.windows % FORGET_EVERY == 0:
            self.forget()
        return ~self.compressed.put(
            stream, array.reshape(-1).view(np.uint8).reshape(self.compressed.shape), record
        )

    def _is(self, rows: Words, reference: int) -> bool:
        """Whether a window has exactly these rows; first and last row are looked at before the rest."""
        numbers = self.extents.numbers(reference)
        return self.rows.equal(rows[[0, -1]], numbers[[0, -1]]) and self.rows.equal(rows, numbers)

    def _put_rows(self, stream: int, rows: Words, newest: int | None, record: int) -> int:
        made = self._segments_made()
        numbers = None if newest is None else self.extents.numbers(newest)[1:]
        if (
            numbers is not None
            and self.rows.equal(rows[:1], numbers[:1])
            and self.rows.equal(rows[:-1], numbers)
        ):
            reference = self.extents.slide(stream, int(self.rows.add(rows[-1:])[0]), record)
        else:
            reference = self.extents.start(stream, self.rows.add(rows), record)
        if made != self._segments_made():
            self.forget()
        return reference

    def _segments_made(self) -> tuple[int, int]:
        return self.rows.segments_made, self.extents.segments_made

    def forget(self) -> None:
        """Drop what no live record names."""
        self.extents.forget(self._head)
        self.compressed.forget(self._head)
        self.rows.keep_only(self.extents.rows_in_use())

    def release(self, head: int) -> None:
        """Records before `head` are gone."""
        self._head = head

    def touch(self, references: npt.NDArray[np.int64], record: int) -> None:
        """Records up to `record` name these windows."""
        self.extents.touch(references[references >= 0], record)
        self.compressed.touch(~references[references < 0], record)

    def read(self, reference: int, out: npt.NDArray[Any]) -> None:
        """Write one window into ``out [*shape]``."""
        if reference < 0:
            self.compressed.read(~reference, out.reshape(-1).view(np.uint8).reshape(self.compressed.shape))
        else:
            self.read_rows(self.extents.numbers(reference), out.reshape(self.length, -1))

    def read_rows(self, numbers: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
        """Write the rows `numbers` into ``out [rows, elements]``."""
        rows = out.view(word_type(self.row_bytes))
        for start, stop, held in self.rows.runs(numbers):
            rows[start:stop] = held

    def sliding_rows(self, references: npt.NDArray[np.int64], slide: int) -> npt.NDArray[np.int64] | None:
        """Row numbers ``[paths, rows]`` that cover ``references [paths, steps]``; None unless all slide by `slide`."""
        paths, steps = references.shape
        length = self.length
        if slide >= length or (references < 0).any():
            return None
        found = np.empty((paths, length + slide * (steps - 1)), np.int64)
        steady = self.extents.slides(references, slide)
        for path, windows, at_once in zip(found, references.tolist(), steady.tolist(), strict=True):
            if at_once:
                path[:] = self.extents.numbers(windows[0], slide * (steps - 1))
                continue
            path[:length] = self.extents.numbers(windows[0])
            for step, window in enumerate(windows[1:], 1):
                numbers = self.extents.numbers(window)
                at = slide * step
                if not np.array_equal(path[at : at + length - slide], numbers[:-slide]):
                    return None
                path[at + length - slide : at + length] = numbers[-slide:]
        return found

    def parts(self) -> dict[str, list[Segment]]:
        """Segments by kind, named after the field."""
        found = {"rows": self.rows.segments(), EXTENTS: self.extents.segments(), **self.compressed.segments()}
        return {f"{self.field.name}.{kind}": segments for kind, segments in found.items()}

    def state(self) -> dict[str, Any]:
        return {
            "windows": self.windows,
            "row_wise": self.row_wise,
            "rows": self.rows.count,
            EXTENTS: self.extents.state(),
            "compressed": self.compressed.state(),
        }

    def load(self, loader: Loader, state: Mapping[str, Any]) -> None:
        prefix = f"{self.field.name}."
        self.windows, self.row_wise = state["windows"], state["row_wise"]
        self.rows.load(loader, f"{prefix}rows", state["rows"])
        self.extents.load(loader, f"{prefix}{EXTENTS}", state[EXTENTS])
        self.compressed.load(loader, prefix, state["compressed"])
        if not self.rows.holds(self.extents.rows_named()):
            raise damaged(f"windows of {self.field.name} name rows that it does not hold")

    def check(self, references: npt.NDArray[np.int64]) -> None:
        """Refuse references to windows that are not there."""
        kept, compressed = references[references >= 0], ~references[references < 0]
        if not (self.extents.holds(kept) and self.compressed.holds(compressed)):
            raise damaged(f"its records name windows of {self.field.name} that it does not hold")
