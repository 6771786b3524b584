"""What is left of a stored replay when some of its objects are lost.

Records keep their numbers. A lost segment is replaced by filler: records that end an episode which nobody began. A
transition whose record is lost, or whose next observation is, is gone; the last record before a gap becomes the
observation with which its stream's episode was cut. So only what is touched is written anew.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.replay import codec
from eigen2.replay.extents import PER_SEGMENT
from eigen2.replay.rows import RowTable
from eigen2.replay.schema import STREAM, ByteArray, Layout
from eigen2.replay.segments import Put, Segment
from eigen2.replay.snapshot import Loader, Read
from eigen2.replay.windows import EXTENTS

FILLER_STREAM = ~0
"""What filler says of its stream: an end of stream 0."""


@dataclass(frozen=True)
class Salvaged:
    manifest: dict[str, Any]
    """Of what is left; it names the good objects and those that were put."""
    kept: int
    """Transitions that are left."""
    lost: int


def salvage(manifest: Mapping[str, Any], read: Read, bad: Collection[str], put: Put) -> Salvaged:
    """The manifest of what is left without the objects `bad`; what had to be written anew goes through `put`."""
    return _Salvage(manifest, read, frozenset(bad), put).done()


class _Salvage:
    def __init__(self, manifest: Mapping[str, Any], read: Read, bad: frozenset[str], put: Put) -> None:
        self.old, self.bad, self.put = manifest, bad, put
        self.loader = Loader(manifest, read)
        self.layout = Layout(self.loader.schema)
        self.parts: dict[str, list[list[Any]]] = {
            part: [list(segment) for segment in segments] for part, segments in manifest["parts"].items()
        }
        self.windows: dict[str, Any] = {name: dict(state) for name, state in manifest["windows"].items()}

    def done(self) -> Salvaged:
        records, lost = self._records()
        pending, pending_lost = self._pending()
        gone = lost.copy()
        for name in self.windows:
            unusable = self._lost_windows(name)
            gone |= unusable(self.layout.views(records)[name]) & ~lost
            pending_lost |= unusable(self.layout.views(pending)[name])
        before = records.copy()
        self._cut(records, lost, gone, pending_lost)
        for segment, entry in zip(self.loader.segments("records"), self.parts["records"], strict=True):
            at = segment.first - self.old["floor"]
            self._replace(entry, records[at : at + segment.rows], before[at : at + segment.rows])
        if pending_lost.all() and self.parts["pending"][0][2] in self.bad:
            self._replace(self.parts["pending"][0], pending)
        had = self.old["total"] - self.old["first"]
        kept = min(int((self.layout.views(records)[STREAM] >= 0).sum()), had)
        if "priorities" in self.parts:
            self._priorities(kept)
        first = self.old["total"] - kept
        return Salvaged(
            {**self.old, "parts": self.parts, "windows": self.windows, "first": first}, kept, had - kept
        )

    def _records(self) -> tuple[ByteArray, npt.NDArray[np.bool_]]:
        """All records from the floor on ``[records, bytes]``, and which of them are lost."""
        count = self.old["tail"] - self.old["floor"]
        records = np.zeros((count, self.layout.nbytes), np.uint8)
        self.layout.views(records)[STREAM][:] = FILLER_STREAM
        lost = np.ones(count, np.bool_)
        for segment in self.loader.segments("records"):
            if segment.name not in self.bad:
                at = segment.first - self.old["floor"]
                records[at : at + segment.rows] = self.loader.content(segment)
                lost[at : at + segment.rows] = False
        return records, lost

    def _pending(self) -> tuple[ByteArray, npt.NDArray[np.bool_]]:
        """The observation after each stream's newest step ``[streams, bytes]``, and which of them are lost."""
        segment = self.loader.segments("pending")[0]
        if segment.name in self.bad:
            return np.zeros((segment.rows, self.layout.nbytes), np.uint8), np.ones(segment.rows, np.bool_)
        return self.loader.content(segment), np.zeros(segment.rows, np.bool_)

    def _cut(
        self, records: ByteArray, lost: npt.NDArray[np.bool_], gone: npt.NDArray[np.bool_],
        pending_lost: npt.NDArray[np.bool_],
    ) -> None:  # fmt: skip
        """End each stream before what is gone; what is gone becomes filler."""
        written = self.layout.views(records)[STREAM]
        stream = np.where(written < 0, ~written, written)
        readable = np.flatnonzero(~lost)
        order = readable[np.argsort(stream[readable], kind="stable")]
        same = stream[order[:-1]] == stream[order[1:]]
        following = np.full(len(records), -1, np.int64)
        following[order[:-1][same]] = order[1:][same]
        lost_before = np.concatenate([[0], np.cumsum(lost)])
        until = np.where(following >= 0, following, len(records))
        unbroken = lost_before[until] == lost_before[:-1]
        goes_on = np.where(following >= 0, ~gone[following], ~pending_lost[stream % len(pending_lost)])
        cut = ~lost & ~gone & (written >= 0) & ~(unbroken & goes_on)
        records[cut, self.layout.observation_bytes :] = 0
        written[cut] = ~stream[cut]
        records[gone] = 0
        # Filler of its own stream, whose episode was cut before it: another stream's may go on across it.
        written[gone] = ~stream[gone]

    def _replace(self, entry: list[Any], content: ByteArray, before: ByteArray | None = None) -> None:
        """Store a segment anew if it is lost or has changed."""
        if entry[2] in self.bad or before is None or not np.array_equal(content, before):
            pieces = codec.encode(
                np.ascontiguousarray(content), self.loader.schema.digest, bool(self.old["compress"])
            )
            entry[2], entry[3] = self.put(pieces), sum(map(len, pieces))

    def _priorities(self, kept: int) -> None:
        """Which priority belonged to which transition is not known across a gap: all get the highest."""
        capacity, total = self.old["capacity"], self.old["total"]
        leaves = np.zeros(min(total, capacity))
        leaves[np.arange(total - kept, total) % capacity] = self.old["max_priority"] ** (
            self.old["alpha"] or 0.0
        )
        self._replace(self.parts["priorities"][0], leaves.view(np.uint8).reshape(-1, 8))

    def _lost_windows(self, field: str) -> Any:
        """A function that says of references ``[...]`` whether their windows are lost."""
        extents, compressed = self._lost_extents(field), self._lost_compressed(field)

        def unusable(references: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
            return np.where(
                references >= 0, np.isin(references >> 8, extents), np.isin(~references, compressed)
            )

        return unusable

    def _lost_extents(self, field: str) -> npt.NDArray[np.int64]:
        """Numbers of the extents that are lost, or whose rows are; the store forgets them."""
        state = self.windows[field]
        lost_rows = self._lost_rows(field)
        tape = f"{field}.{EXTENTS}"
        lost: list[int] = []
        for segment in self.loader.segments(tape):
            if segment.name in self.bad:
                lost += range(segment.first * PER_SEGMENT, (segment.first + 1) * PER_SEGMENT)
                continue
            entries = self.loader.content(segment).view(np.int64)[:, 0]
            while len(entries):
                number, _, used = (int(entry) for entry in entries[:3])
                if np.isin(np.cumsum(entries[3 : 3 + used]), lost_rows).any():
                    lost.append(number)
                entries = entries[3 + used :]
        self._without_bad(tape)
        if lost:
            gone = set(lost)
            alive = [
                n for start, stop in state[EXTENTS]["alive"] for n in range(start, stop) if n not in gone
            ]
            state[EXTENTS] = {
                "count": state[EXTENTS]["count"],
                "open": {stream: n for stream, n in state[EXTENTS]["open"].items() if n not in gone},
                "alive": [[n, n + 1] for n in alive],
            }
        return np.array(lost, np.int64)

    def _lost_rows(self, field: str) -> npt.NDArray[np.int64]:
        state, part = self.windows[field], f"{field}.rows"
        lost = [np.empty(0, np.int64)]
        for segment in self.loader.segments(part):
            if segment.name in self.bad:
                lost.append(np.arange(segment.first, segment.first + segment.rows))
                if segment.first + segment.rows == state["rows"]:
                    # The open segment is gone: the next row begins a new one.
                    length = self._row_table(field).segment_rows
                    state["rows"] = -(-state["rows"] // length) * length
        self._without_bad(part)
        return np.concatenate(lost)

    def _row_table(self, field: str) -> RowTable:
        found = next(f for f in self.loader.schema.large if f.name == field)
        return RowTable(found.window[1], np.dtype(found.dtype).itemsize)

    def _lost_compressed(self, field: str) -> npt.NDArray[np.int64]:
        state, part = dict(self.windows[field]["compressed"]), f"{field}.compressed"
        segments: list[Segment] = self.loader.segments(part)
        ends = [segment.first for segment in segments[1:]] + [state["count"]] * bool(segments)
        lost = [np.empty(0, np.int64)]
        for segment, end in zip(segments, ends, strict=True):
            if segment.name in self.bad:
                lost.append(np.arange(segment.first, end))
                if segment.first == state["open_first"]:
                    state["open_first"] = state["count"]
        numbers = np.concatenate(lost)
        state["newest"] = {
            stream: newest for stream, newest in state["newest"].items() if newest[0] not in numbers
        }
        self.windows[field]["compressed"] = state
        self._without_bad(part)
        ages = self.parts[f"{field}.compressed_records"][0]
        if ages[2] in self.bad:
            # How long each window is needed is not known: as long as the newest record.
            known = np.array([[n, self.old["tail"]] for n in range(state["count"])], np.int64).reshape(-1, 2)
            ages[1] = len(known)
            self._replace(ages, np.diff(known, axis=0, prepend=0).view(np.uint8))
        return numbers

    def _without_bad(self, part: str) -> None:
        self.parts[part] = [entry for entry in self.parts[part] if entry[2] not in self.bad]
