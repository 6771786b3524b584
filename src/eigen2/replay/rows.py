"""Rows, each kept once: a table that only grows, found by content, in segments that are dropped when nobody names them.

A row's number is its place in the order of first appearance. A hash only proposes; equality of the bytes decides.
"""

import ctypes
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.replay.segments import SEGMENT_BYTES, Segment, frozen
from eigen2.replay.size import INDEX_BYTES
from eigen2.replay.snapshot import Loader
from eigen2.replay.stored import damaged

Words = npt.NDArray[Any]
"""Rows ``[rows, words]``, in the widest integers that divide a row."""


# NumPy compares into a temporary array; for megabytes of rows per window the C library is twice as fast.
_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_memcmp.restype = ctypes.c_int


def _same_bytes(one: Words, other: Words) -> bool:
    """Whether two contiguous arrays of the same shape and type are equal, byte for byte."""
    return bool(_memcmp(one.ctypes.data, other.ctypes.data, one.nbytes) == 0)


def word_type(row_bytes: int) -> np.dtype[Any]:
    return np.dtype(f"u{next(size for size in (8, 4, 2, 1) if row_bytes % size == 0)}")


class RowTable:
    def __init__(self, row_bytes: int, itemsize: int) -> None:
        self.row_bytes, self.itemsize = row_bytes, itemsize
        self.segment_rows = max(1, SEGMENT_BYTES // row_bytes)
        self.count = 0
        self._word = word_type(row_bytes)
        self._rows: dict[int, Words] = {}
        """Memory of each segment ``[segment_rows, words]``; the last one is being filled."""
        self._full: dict[int, Segment] = {}
        self._by_hash: dict[int, list[int]] = {}

    @property
    def used_bytes(self) -> int:
        return len(self._rows) * self.segment_rows * (self.row_bytes + INDEX_BYTES)

    @property
    def bytes_ever(self) -> int:
        """What all rows that ever appeared cost, dropped ones included."""
        return self.count * (self.row_bytes + INDEX_BYTES)

    @property
    def segments_made(self) -> int:
        return self.count // self.segment_rows

    def runs(self, numbers: npt.NDArray[np.int64]) -> list[tuple[int, int, Words]]:
        """The rows `numbers` as runs ``(start, stop, rows)`` that lie in one piece of memory."""
        if len(numbers) == 0:
            return []
        breaks = np.diff(numbers) != 1
        breaks |= numbers[1:] % self.segment_rows == 0
        starts = [0, *(np.flatnonzero(breaks) + 1).tolist()]
        found = []
        for start, stop in zip(starts, [*starts[1:], len(numbers)], strict=True):
            segment, offset = divmod(int(numbers[start]), self.segment_rows)
            found.append((start, stop, self._rows[segment][offset : offset + stop - start]))
        return found

    def equal(self, rows: Words, numbers: npt.NDArray[np.int64]) -> bool:
        """Whether ``rows [n, words]`` are, byte for byte, the rows `numbers`."""
        return all(_same_bytes(rows[start:stop], held) for start, stop, held in self.runs(numbers))

    def add(self, rows: Words) -> npt.NDArray[np.int64]:
        """Numbers of ``rows [n, words]``, keeping those that are new."""
        numbers = np.empty(len(rows), np.int64)
        done = 0
        while done < len(rows):
            code = zlib.crc32(rows[done])
            number, length = self._match(rows[done:], code)
            if length == 0:
                number, length = self._append(rows[done], code), 1
            numbers[done : done + length] = np.arange(number, number + length)
            done += length
        return numbers

    def _match(self, rows: Words, code: int) -> tuple[int, int]:
        """The number of the first row and how many rows from there on follow each other in the table too."""
        for number in self._by_hash.get(code, ()):
            segment, offset = divmod(number, self.segment_rows)
            held = self._rows[segment][
                offset : min(self.segment_rows, self.count - segment * self.segment_rows)
            ]
            if _same_bytes(held[0], rows[0]):
                length = min(len(held), len(rows))
                same = (held[:length] == rows[:length]).all(axis=1)
                return number, length if same.all() else int(np.argmin(same))
        return -1, 0

    def _append(self, row: Words, code: int) -> int:
        number = self.count
        segment, offset = divmod(number, self.segment_rows)
        if offset == 0:
            self._rows[segment] = np.zeros(
                (self.segment_rows, self.row_bytes // self._word.itemsize), self._word
            )
        self._rows[segment][offset] = row
        self._by_hash.setdefault(code, []).append(number)
        self.count += 1
        if self.count % self.segment_rows == 0:
            self._full[segment] = Segment(
                segment * self.segment_rows, self._rows[segment].view(np.uint8), plane=self.itemsize
            )
        return number

    def keep_only(self, used: npt.NDArray[np.int64]) -> None:
        """Drop every full segment none of whose rows is in `used`."""
        wanted = set(np.unique(used // self.segment_rows).tolist())
        for segment in [s for s in self._full if s not in wanted]:
            first = segment * self.segment_rows
            for number, row in enumerate(self._rows[segment], first):
                code = zlib.crc32(row)
                self._by_hash[code].remove(number)
                if not self._by_hash[code]:
                    del self._by_hash[code]
            del self._rows[segment], self._full[segment]

    def holds(self, numbers: npt.NDArray[np.int64]) -> bool:
        """Whether every row of these numbers is there."""
        if len(numbers) == 0:
            return True
        if numbers.min() < 0 or numbers.max() >= self.count:
            return False
        segments = numbers // self.segment_rows
        changes = np.flatnonzero(np.diff(segments, prepend=-1))
        return set(segments[changes].tolist()) <= self._rows.keys()

    def segments(self) -> list[Segment]:
        found = list(self._full.values())
        last, rows = divmod(self.count, self.segment_rows)
        if rows:
            found.append(
                frozen(self._rows[last][:rows].view(np.uint8), last * self.segment_rows, self.itemsize)
            )
        return found

    def load(self, loader: Loader, part: str, count: int) -> None:
        self.count = count
        for segment in loader.segments(part):
            number, rest = divmod(segment.first, self.segment_rows)
            expected = min(self.segment_rows, count - segment.first)
            if rest or number in self._rows or segment.rows != expected:
                raise damaged(
                    f"rows {segment.first} to {segment.first + segment.rows} of {count} cannot be a segment"
                )
            rows = np.zeros((self.segment_rows, self.row_bytes), np.uint8)
            loader.content(segment, rows[: segment.rows])
            self._rows[number] = rows.view(self._word)
            for offset in range(segment.rows):
                self._by_hash.setdefault(zlib.crc32(rows[offset]), []).append(segment.first + offset)
            if segment.rows == self.segment_rows:
                segment.matrix, segment.plane = rows, self.itemsize
                self._full[number] = segment
        if count % self.segment_rows and count // self.segment_rows not in self._rows:
            raise damaged("its newest rows are missing")
