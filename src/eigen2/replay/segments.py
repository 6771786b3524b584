"""Segments: fixed spans of rows that never change once full, and are the unit of saving.

A segment looks into the live memory of the buffer. Before that memory is written again the buffer calls `detach`,
which gives the segment a copy of its own if (and only if) an unfinished snapshot still needs it. The lock makes this
safe against a background thread that is serialising the segment at that moment.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from eigen2.replay import blob
from eigen2.replay.schema import ByteArray


@dataclass(eq=False)
class Segment:
    """Rows ``[first, first + len)`` of one kind of content, as a byte matrix ``[rows, width]``."""

    first: int
    matrix: ByteArray | None
    name: str | None = None
    holders: int = 0
    stored_bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def encode(self, digest: bytes, compress: bool) -> bytes:
        """The segment's blob; also fixes its name."""
        with self.lock:
            if self.matrix is None:
                raise AssertionError("segment was dropped while a snapshot needed it")
            data = blob.encode(self.matrix, digest, compress)
        self.name, self.stored_bytes = blob.blob_name(data), len(data)
        return data

    def detach(self) -> None:
        """Called before the memory under the segment is reused or given up."""
        with self.lock:
            self.matrix = self.matrix.copy() if self.holders and self.matrix is not None else None


def frozen(rows: ByteArray, first: int = 0) -> Segment:
    """A segment with its own copy of `rows`: for open tails, whose memory goes on changing."""
    return Segment(first, np.ascontiguousarray(rows).copy())


class SegmentList:
    """The segments of one kind of content, oldest first, all but the last of them sealed."""

    def __init__(self) -> None:
        self._sealed: dict[int, Segment] = {}

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._sealed.values())

    def __len__(self) -> int:
        return len(self._sealed)

    def __contains__(self, number: int) -> bool:
        return number in self._sealed

    def __getitem__(self, number: int) -> Segment:
        return self._sealed[number]

    def seal(self, number: int, segment: Segment) -> None:
        self._sealed[number] = segment

    def drop(self, number: int) -> None:
        """Forget a sealed segment; an unfinished snapshot keeps its own copy."""
        segment = self._sealed.pop(number, None)
        if segment is not None:
            segment.detach()

    def numbers(self) -> list[int]:
        return list(self._sealed)
