"""The packed records: one contiguous ring ``[slots, record_bytes]``, cut into segments.

Records are numbered from 0 for ever; record r lies in slot ``r % slots``. `slots` is a multiple of the segment
length, so a segment lies in one piece. Behind the ring lie the *pending* slots, one per stream: the
observation after a stream's newest step, until the stream goes on or its episode ends.
"""

import numpy as np
import numpy.typing as npt

from eigen2.replay.schema import ByteArray, Layout
from eigen2.replay.segments import Segment, frozen
from eigen2.replay.size import segment_records
from eigen2.replay.snapshot import Loader


class RecordRing:
    def __init__(self, layout: Layout, capacity: int) -> None:
        self.layout = layout
        self.segment_records = segment_records(layout.nbytes, capacity)
        self.tail = 0
        self.floor = 0
        self.segments: dict[int, Segment] = {}
        self._allocate(self._round(capacity + capacity // 64 + 2 * self.segment_records), pending=1)

    def _round(self, slots: int) -> int:
        return -(-slots // self.segment_records) * self.segment_records

    def _allocate(self, slots: int, pending: int) -> None:
        # calloc: pages are touched only when written, so an almost empty ring costs almost nothing.
        self.buffer: ByteArray = np.zeros((slots + pending, self.layout.nbytes), np.uint8)
        self.words: npt.NDArray[np.int64] = self.buffer.view(np.int64)
        self.fields = self.layout.views(self.buffer)
        self.slots = slots
        self.pending = pending

    @property
    def used_bytes(self) -> int:
        """Bytes of memory pages that have been written."""
        return (min(self.tail, self.slots) + self.pending) * self.layout.nbytes

    def release(self, head: int) -> None:
        """Records before `head` are no longer needed; whole segments of them become free."""
        length = self.segment_records
        new_floor = head // length * length
        for number in range(self.floor // length, new_floor // length):
            self.segments.pop(number).detach()
        self.floor = new_floor

    def fits(self, records: int, streams: int) -> bool:
        return self.tail + records - self.floor <= self.slots and streams <= self.pending

    def grow(self, records: int, streams: int) -> None:
        """Make room for `records` more and for `streams` pending slots; every live record keeps its number."""
        need = self.tail + records - self.floor + self.segment_records
        slots = self.slots if need <= self.slots else self._round(max(need, self.slots + self.slots // 16))
        pending = self.pending if streams <= self.pending else max(streams, 2 * self.pending)
        old, old_slots, old_pending = self.buffer, self.slots, self.pending
        self._allocate(slots, pending)
        self.buffer[slots : slots + old_pending] = old[old_slots:]
        length = self.segment_records
        for first in range(self.floor, self.tail, length):
            count = min(length, self.tail - first)
            rows = self.buffer[first % slots : first % slots + count]
            rows[:] = old[first % old_slots : first % old_slots + count]
            if first // length in self.segments:
                # An unfinished snapshot keeps reading the old memory, which nobody writes any more.
                self.segments[first // length].matrix = rows

    def reserve(self, records: int) -> npt.NDArray[np.int64]:
        """Slots ``[records]`` of the next records, whose segments are sealed once `commit` says they are written."""
        at = self.tail % self.slots
        slots = np.arange(at, at + records)
        return slots if at + records <= self.slots else slots % self.slots

    def commit(self, records: int) -> None:
        length = self.segment_records
        before, self.tail = self.tail, self.tail + records
        for number in range(before // length, self.tail // length):
            first = number * length
            at = first % self.slots
            self.segments[number] = Segment(first, self.buffer[at : at + length])

    def parts(self) -> dict[str, list[Segment]]:
        """Sealed segments as they are, the open tail and the pending slots as copies."""
        first = self.tail // self.segment_records * self.segment_records
        at = first % self.slots
        records = list(self.segments.values())
        if first < self.tail:
            records.append(frozen(self.buffer[at : at + self.tail - first], first))
        return {"records": records, "pending": [frozen(self.buffer[self.slots :])]}

    def load(self, loader: Loader) -> None:
        """Fill an empty ring with the records of a manifest, under their own numbers."""
        manifest = loader.manifest
        self.segment_records, self.floor = manifest["segment_records"], manifest["floor"]
        pending = loader.segments("pending")[0]
        live = manifest["tail"] - self.floor
        self._allocate(self._round(max(self.slots, live + self.segment_records)), pending.rows)
        loader.content(pending, self.buffer[self.slots :])
        for segment in loader.segments("records"):
            at = segment.first % self.slots
            rows = self.buffer[at : at + segment.rows]
            loader.content(segment, rows)
            if segment.rows == self.segment_records:
                segment.matrix = rows
                self.segments[segment.first // self.segment_records] = segment
        self.tail = manifest["tail"]

    def record_of(self, slots: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Record numbers of live slots: the one number in ``[tail - slots, tail)`` with that remainder."""
        base = self.tail - self.slots
        return base + (slots.astype(np.int64) - base) % self.slots
