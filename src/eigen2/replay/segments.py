"""Segments: fixed spans of rows that never change once full; each is written as one object.

A segment looks into the live memory of the buffer. Before that memory is written again the buffer calls `detach`,
which gives the segment a copy of its own if (and only if) an unfinished snapshot still needs it. The lock makes this
safe against a background thread that is encoding the segment at that moment.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from eigen2.replay import codec
from eigen2.replay.schema import ByteArray

SEGMENT_BYTES = 1 << 20
"""How much content makes a segment full."""
Put: TypeAlias = Callable[[list[bytes]], str]
"""Stores the concatenation of its argument and returns the name it got."""
Has: TypeAlias = Callable[[str], bool]
"""Whether something is stored under a name."""


@dataclass(eq=False)
class Segment:
    """Rows from number `first` on of one kind of content, as a byte matrix ``[rows, width]``."""

    first: int
    matrix: ByteArray | None
    rows: int = -1
    name: str | None = None
    """What it was stored as; None: not yet."""
    stored_bytes: int = 0
    plane: int = 0
    """Width of the byte shuffle; 0: the whole row."""
    width: int = 0
    """Bytes of a row, of one that is yet to be read."""
    plain: bool = False
    """The content is compressed already."""
    _holders: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.matrix is not None:
            self.rows = len(self.matrix)

    def hold(self) -> None:
        with self._lock:
            self._holders += 1

    def let_go(self) -> None:
        with self._lock:
            self._holders -= 1

    def write(self, put: Put, has: Has, digest: bytes, compress: bool) -> None:
        """Store the segment unless it is there."""
        if self.name is None or not has(self.name):
            with self._lock:
                if self.matrix is None:
                    raise RuntimeError(f"replay segment {self.first} was given up before it was written")
                pieces = codec.encode(self.matrix, digest, compress and not self.plain, self.plane)
            self.name, self.stored_bytes = put(pieces), sum(map(len, pieces))

    def detach(self) -> None:
        """Called before the memory under the segment is reused."""
        with self._lock:
            self.matrix = self.matrix.copy() if self._holders and self.matrix is not None else None


def frozen(rows: ByteArray, first: int = 0, plane: int = 0) -> Segment:
    """A segment with its own copy of `rows`: for open tails, whose memory goes on changing."""
    return Segment(first, np.array(rows, order="C"), plane=plane)
