"""Writing steps into the ring: rows of all streams in time order, each observation once.

Row by row the ring holds the steps of all streams and then, for the episodes that ended with this row, the observations
they ended with. So the content does not depend on how the rows were cut into calls.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.replay.chunk import Array, Chunk
from eigen2.replay.links import Links
from eigen2.replay.ring import RecordRing
from eigen2.replay.schema import STREAM, ByteArray, Schema
from eigen2.replay.windows import WindowStore


class Writer:
    """Owns the ends of the streams; writes ring, links and window stores."""

    def __init__(
        self, schema: Schema, ring: RecordRing, links: Links, windows: Mapping[str, WindowStore]
    ) -> None:
        self._schema, self.ring, self.links, self.windows = schema, ring, links, windows
        self.newest = np.full(1, -1, np.int64)
        """Newest transition of each stream whose episode goes on, else -1."""

    def write(self, chunk: Chunk) -> None:
        self.make_streams(int(chunk.streams.max()) + 1)
        used = 0
        for start, stop in chunk.pieces(max(1, self.links.capacity // len(chunk.streams))):
            ended = chunk.ended[stop - 1]
            if stop == len(chunk.ended):
                last = {name: array[ended] for name, array in chunk.after.items()}
            elif ended.any():
                last = {name: array[used : used + ended.sum()] for name, array in chunk.final.items()}
                used += int(ended.sum())
            else:
                last = {}
            self._write_rows(chunk, start, stop, last)
        self._write_pending(chunk)

    def make_streams(self, count: int) -> None:
        """Be ready for streams 0 .. `count` - 1."""
        if count > len(self.newest):
            grown = np.full(max(count, 2 * len(self.newest)), -1, np.int64)
            grown[: len(self.newest)] = self.newest
            self.newest = grown

    def _write_rows(self, chunk: Chunk, start: int, stop: int, last: Mapping[str, Array]) -> None:
        """Rows ``[start, stop)``: no episode ends in them except at the last row, with the observations `last`."""
        streams, width = chunk.streams, len(chunk.streams)
        count = (stop - start) * width
        self._make_room(count, int(chunk.ended[stop - 1].sum()) + width)
        rows: dict[str, Any] = {}
        for name, array in chunk.steps.items():
            part = array[start:stop]
            # Windows may be overlapping views; a reshape would copy each of them in full.
            large = name in self.windows
            rows[name] = [w for row in part for w in row] if large else part.reshape(count, *part.shape[2:])
        written_by = np.tile(streams, stop - start)
        rows = self._by_reference(rows, written_by) | {STREAM: written_by}
        if start == 0:
            self._cut_where_not_continued(rows, streams)
        slots = self._pack(rows, count)
        numbers = self.links.append(slots, width)
        before = self.newest[streams]
        going_on = before >= self.links.first
        self.links.connect(before[going_on], slots[:width][going_on], numbers[:width][going_on])
        newest, ended = numbers[-width:], chunk.ended[stop - 1]
        self.links.connect(newest, self.ring.slots + streams)
        self.newest[streams] = np.where(ended, -1, newest)
        if ended.any():
            ends = self._by_reference(dict(last), streams[ended])
            self.links.connect(newest[ended], self._pack_ends(ends, streams[ended]))

    def _cut_where_not_continued(self, rows: Mapping[str, Array], streams: npt.NDArray[np.int64]) -> None:
        """Give streams whose first observation is not the one announced an end record with the announced one."""
        ring = self.ring
        waiting = np.flatnonzero(self.newest[streams] >= self.links.first)
        if len(waiting) == 0:
            return
        streams = streams[waiting]
        announced = {f.name: ring.fields[f.name][ring.slots + streams] for f in self._schema.observation}
        broken = np.zeros(len(streams), np.bool_)
        for name, array in announced.items():
            given = np.ascontiguousarray(rows[name][waiting], array.dtype)
            broken |= (_row_bytes(array) != _row_bytes(given)).any(axis=1)
        if broken.any():
            cut = streams[broken]
            slots = self._pack_ends({name: array[broken] for name, array in announced.items()}, cut)
            self.links.connect(self.newest[cut], slots)
            self.newest[cut] = -1

    def _write_pending(self, chunk: Chunk) -> None:
        open_ = ~chunk.ended[-1]
        streams = chunk.streams[open_]
        after = {name: array[open_] for name, array in chunk.after.items()}
        for name, array in self._by_reference(after, streams).items():
            self.ring.fields[name][self.ring.slots + streams] = array

    def _by_reference(self, rows: dict[str, Any], streams: npt.NDArray[np.int64]) -> dict[str, Array]:
        """Hand large fields to their window stores and put references in their place."""
        for name, store in self.windows.items():
            kept = [store.put(int(s), w, self.ring.tail) for s, w in zip(streams, rows[name], strict=True)]
            rows[name] = np.array(kept, np.int64)
        return rows

    def _pack(self, rows: Mapping[str, Array], count: int) -> npt.NDArray[np.int64]:
        """Write rows ``[count, ...]`` as the next records; returns their slots."""
        ring = self.ring
        slots = ring.reserve(count)
        at = int(slots[0])
        whole = min(count, ring.slots - at)
        for name, array in rows.items():
            ring.fields[name][at : at + whole] = array[:whole]
            if whole < count:
                ring.fields[name][: count - whole] = array[whole:]
        ring.commit(count)
        for name, store in self.windows.items():
            store.touch(rows[name], ring.tail)
        return slots

    def _pack_ends(self, rows: dict[str, Array], streams: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Write observation-only records that end an episode of each stream; returns their slots."""
        slots = self.ring.reserve(len(streams))
        self.ring.buffer[slots, self.ring.layout.observation_bytes :] = 0
        return self._pack(rows | {STREAM: ~streams}, len(streams))

    def _make_room(self, transitions: int, ends: int) -> None:
        links, ring = self.links, self.ring
        links.make_room(transitions)
        self.newest[self.newest < links.first] = -1
        ring.release(self._head())
        for store in self.windows.values():
            store.release(ring.floor)
        if not ring.fits(transitions + ends, len(self.newest)):
            first, total = links.first, links.total
            entries = np.arange(first, total) % links.capacity
            slots = links.slots[entries].astype(np.int64)
            pending = slots - ring.slots
            records = ring.record_of(slots)
            ring.grow(transitions + ends, len(self.newest))
            links.slots[entries] = np.where(pending >= 0, ring.slots + pending, records % ring.slots)

    def _head(self) -> int:
        """Number of the first record still needed."""
        if len(self.links) == 0:
            return self.ring.tail
        slot = self.links.slots[[self.links.first % self.links.capacity], 0]
        return int(self.ring.record_of(slot)[0])


def _row_bytes(array: Array) -> ByteArray:
    """Bytes ``[rows, n]`` of an array ``[rows, ...]``: equal numbers may differ, as 0 and -0 do, or NaN from itself."""
    return array.reshape(len(array), -1).view(np.uint8)
