"""Rows, each kept once: a table that only grows, found by content, in blocks that are dropped when nobody names them.

A row's number is its place in the order of first appearance. A hash only proposes; equality of the bytes decides.
"""

import ctypes
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.replay.segments import Segment, frozen
from eigen2.replay.snapshot import Loader

BLOCK_BYTES = 1 << 20
INDEX_BYTES = 120
"""What finding one row by its content costs."""
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
        self.block_rows = max(1, BLOCK_BYTES // row_bytes)
        self.count = 0
        self._word = word_type(row_bytes)
        self._blocks: dict[int, Words] = {}
        self._segments: dict[int, Segment] = {}
        self._by_hash: dict[int, list[int]] = {}

    @property
    def used_bytes(self) -> int:
        return len(self._blocks) * self.block_rows * (self.row_bytes + INDEX_BYTES)

    @property
    def bytes_ever(self) -> int:
        """What all rows that ever appeared cost, dropped ones included."""
        return self.count * (self.row_bytes + INDEX_BYTES)

    @property
    def blocks_made(self) -> int:
        return self.count // self.block_rows

    def runs(self, numbers: npt.NDArray[np.int64]) -> list[tuple[int, int, Words]]:
        """The rows `numbers` as runs ``(start, stop, rows)`` that lie in one piece of memory."""
        breaks = np.diff(numbers) != 1
        breaks |= numbers[1:] % self.block_rows == 0
        starts = [0, *(np.flatnonzero(breaks) + 1).tolist()]
        found = []
        for start, stop in zip(starts, [*starts[1:], len(numbers)], strict=True):
            block, offset = divmod(int(numbers[start]), self.block_rows)
            found.append((start, stop, self._blocks[block][offset : offset + stop - start]))
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
            block, offset = divmod(number, self.block_rows)
            held = self._blocks[block][offset : min(self.block_rows, self.count - block * self.block_rows)]
            if _same_bytes(held[0], rows[0]):
                length = min(len(held), len(rows))
                same = (held[:length] == rows[:length]).all(axis=1)
                return number, length if same.all() else int(np.argmin(same))
        return -1, 0

    def _append(self, row: Words, code: int) -> int:
        number = self.count
        block, offset = divmod(number, self.block_rows)
        if offset == 0:
            self._blocks[block] = np.zeros(
                (self.block_rows, self.row_bytes // self._word.itemsize), self._word
            )
        self._blocks[block][offset] = row
        self._by_hash.setdefault(code, []).append(number)
        self.count += 1
        if self.count % self.block_rows == 0:
            self._segments[block] = Segment(
                block * self.block_rows, self._blocks[block].view(np.uint8), plane=self.itemsize
            )
        return number

    def keep_only(self, used: npt.NDArray[np.int64]) -> None:
        """Drop every full block none of whose rows is in `used`."""
        wanted = set(np.unique(used // self.block_rows).tolist())
        for block in [b for b in self._segments if b not in wanted]:
            first = block * self.block_rows
            for number, row in enumerate(self._blocks[block], first):
                code = zlib.crc32(row)
                self._by_hash[code].remove(number)
                if not self._by_hash[code]:
                    del self._by_hash[code]
            del self._blocks[block], self._segments[block]

    def segments(self) -> list[Segment]:
        found = list(self._segments.values())
        if self.count % self.block_rows:
            block, rows = divmod(self.count, self.block_rows)
            found.append(
                frozen(self._blocks[block][:rows].view(np.uint8), block * self.block_rows, self.itemsize)
            )
        return found

    def load(self, loader: Loader, part: str, count: int) -> None:
        self.count = count
        for segment in loader.segments(part):
            block = segment.first // self.block_rows
            rows = np.zeros((self.block_rows, self.row_bytes), np.uint8)
            loader.content(segment, rows[: segment.rows])
            self._blocks[block] = rows.view(self._word)
            for offset in range(segment.rows):
                self._by_hash.setdefault(zlib.crc32(rows[offset]), []).append(segment.first + offset)
            if segment.rows == self.block_rows:
                segment.matrix, segment.plane = rows, self.itemsize
                self._segments[block] = segment
