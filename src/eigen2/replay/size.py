"""How much a replay will hold, known before there is one. Imports no torch."""

from dataclasses import dataclass

from eigen2.replay.schema import SMALLEST_ROW, Field, Layout, Schema
from eigen2.replay.segments import SEGMENT_BYTES

LINK_BYTES = 12
"""What a transition costs beside its record: where it lies, where its next observation lies, what follows it."""
INDEX_BYTES = 120
"""What finding one row by its content costs."""
ROW_BYTES = INDEX_BYTES + 16
"""What a row that is kept once costs beside its content."""


def stored_bytes(schema: Schema) -> int:
    """Of one transition, before compression: its record, and what its large observations add.

    A window over rows is taken to move on by one row, as windows over time do; an array without rows, or with tiny ones,
    repeats nothing and is kept whole.
    """
    return Layout(schema).nbytes + sum(map(_added, schema.large))


def _added(field: Field) -> int:
    rows, row = field.window
    return row + ROW_BYTES if rows > 1 and row >= SMALLEST_ROW else field.nbytes


def segment_records(record: int, capacity: int) -> int:
    """Records that are written as one object: about 1 MB, and a power of two."""
    length = 1 << max(3, (SEGMENT_BYTES // record).bit_length() - 1)
    while length > max(8, capacity // 4):
        length //= 2
    return length


@dataclass(frozen=True)
class ReplaySize:
    """A replay of `capacity` transitions of `record` bytes each."""

    record: int
    capacity: int

    @property
    def segment(self) -> int:
        return segment_records(self.record, self.capacity)

    @property
    def slots(self) -> int:
        """Records that the ring has room for."""
        length = self.segment
        return -(-(self.capacity + self.capacity // 64 + 2 * length) // length) * length

    def held(self, written: int) -> int:
        """Memory in use after `written` transitions."""
        return min(written, self.slots) * self.record + min(written, self.capacity) * LINK_BYTES

    def stored(self, written: int) -> int:
        """Bytes of the records that a checkpoint names, before compression; whole segments leave."""
        live = min(written, self.capacity + self.segment // 2)
        return live * self.record

    def tail(self, written: int) -> int:
        """Bytes of the open segment, which every save writes anew."""
        return written % self.segment * self.record
