"""Extents: lists of row numbers, over which windows slide. A window is `length` consecutive entries of one.

While a stream's windows move on by one row, each costs one entry; where they jump, a new extent begins. Extents are
saved 64 to a segment; a segment whose extents are all closed never changes again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.replay.segments import Segment, frozen
from eigen2.replay.snapshot import Loader
from eigen2.replay.stored import damaged

PER_SEGMENT = 64
"""Extents in a segment; also how often extents nobody needs are looked for."""
SLIDES = 255
"""How many times the window of one extent may move on."""
_SHIFT = 8


@dataclass
class Extent:
    numbers: npt.NDArray[np.int64]
    """Row numbers ``[length + SLIDES]`` while open, cut to what is used when closed."""
    used: int
    last_record: int
    """The newest record that names a window of this extent."""


class Extents:
    def __init__(self, length: int) -> None:
        self.length = length
        self.count = 0
        self._extents: dict[int, Extent] = {}
        self._open: dict[int, int] = {}
        self._closed: dict[int, Segment] = {}

    @property
    def used_bytes(self) -> int:
        return sum(extent.numbers.nbytes for extent in self._extents.values())

    def numbers(self, reference: int, more: int = 0) -> npt.NDArray[np.int64]:
        """Row numbers ``[length + more]`` of a window and of those that follow it in its extent."""
        offset = reference & SLIDES
        return self._extents[reference >> _SHIFT].numbers[offset : offset + self.length + more]

    @staticmethod
    def slides(references: npt.NDArray[np.int64], slide: int) -> npt.NDArray[np.bool_]:
        """Where all of ``references [paths, steps]`` are of one extent, each `slide` rows after the one before."""
        steady: npt.NDArray[np.bool_] = (np.diff(references, axis=1) == slide).all(axis=1)
        steady &= references[:, 0] >> _SHIFT == references[:, -1] >> _SHIFT
        return steady

    def newest(self, stream: int) -> int | None:
        """The stream's newest window, or None."""
        number = self._open.get(stream)
        return None if number is None else number << _SHIFT | self._extents[number].used - self.length

    def start(self, stream: int, numbers: npt.NDArray[np.int64], record: int) -> int:
        """A window that does not continue the stream's last one."""
        self.close(stream)
        extent = Extent(np.empty(self.length + SLIDES, np.int64), self.length, record)
        extent.numbers[: self.length] = numbers
        number, self.count = self.count, self.count + 1
        self._extents[number] = extent
        self._open[stream] = number
        if self.count % PER_SEGMENT == 0:
            self._seal(number // PER_SEGMENT)
        return number << _SHIFT

    def slide(self, stream: int, number: int, record: int) -> int:
        """The stream's window moved on by one row, `number`."""
        extent = self._extents[self._open[stream]]
        if extent.used == len(extent.numbers):
            window = np.append(extent.numbers[extent.used - self.length + 1 :], number)
            return self.start(stream, window, record)
        extent.numbers[extent.used] = number
        extent.used += 1
        extent.last_record = max(extent.last_record, record)
        return self._open[stream] << _SHIFT | extent.used - self.length

    def close(self, stream: int) -> None:
        number = self._open.pop(stream, None)
        if number is not None:
            extent = self._extents[number]
            extent.numbers = extent.numbers[: extent.used].copy()
            self._seal(number // PER_SEGMENT)

    @property
    def segments_made(self) -> int:
        return self.count // PER_SEGMENT

    def touch(self, references: npt.NDArray[np.int64], record: int) -> None:
        """Records up to `record` name these windows."""
        for number in np.unique(references >> _SHIFT).tolist():
            self.keep(number << _SHIFT, record)

    def keep(self, reference: int, record: int) -> None:
        """Keep a window as long as `record` lives."""
        extent = self._extents[reference >> _SHIFT]
        extent.last_record = max(extent.last_record, record)

    def forget(self, head: int) -> None:
        """Drop closed extents that only records before `head` name."""
        held = set(self._open.values())
        for number in [n for n, e in self._extents.items() if e.last_record < head and n not in held]:
            del self._extents[number]
        alive = {number // PER_SEGMENT for number in self._extents}
        for segment in [s for s in self._closed if s not in alive]:
            del self._closed[segment]

    def rows_in_use(self) -> npt.NDArray[np.int64]:
        used = [np.unique(e.numbers[: e.used]) for e in self._extents.values()]
        return np.unique(np.concatenate(used)) if used else np.empty(0, np.int64)

    def rows_named(self) -> npt.NDArray[np.int64]:
        """Row numbers of all windows, repeated as often as they are named."""
        used = [extent.numbers[: extent.used] for extent in self._extents.values()]
        return np.concatenate(used) if used else np.empty(0, np.int64)

    def state(self) -> dict[str, Any]:
        alive: list[list[int]] = []
        for number in self._extents:
            if alive and alive[-1][1] == number:
                alive[-1][1] += 1
            else:
                alive.append([number, number + 1])
        return {
            "count": self.count,
            "open": {str(stream): number for stream, number in self._open.items()},
            "alive": alive,
        }

    def segments(self) -> list[Segment]:
        segments = dict.fromkeys(number // PER_SEGMENT for number in self._extents)
        return [self._closed.get(segment) or self._segment(segment) for segment in segments]

    def _seal(self, segment: int) -> None:
        """Fix the content of a segment, if its extents are all made and closed."""
        if self._is_closed(segment):
            self._closed[segment] = self._segment(segment)

    def _is_closed(self, segment: int) -> bool:
        open_segments = (number // PER_SEGMENT for number in self._open.values())
        return (segment + 1) * PER_SEGMENT <= self.count and segment not in open_segments

    def _segment(self, segment: int) -> Segment:
        """``[number, last record, used, row numbers as differences]`` of each extent, as bytes ``[entries, 8]``."""
        content = [np.empty(0, np.int64)]
        for number in range(segment * PER_SEGMENT, (segment + 1) * PER_SEGMENT):
            extent = self._extents.get(number)
            if extent is not None:
                rows = np.diff(extent.numbers[: extent.used], prepend=0)
                content += [np.array([number, extent.last_record, extent.used]), rows]
        return frozen(np.concatenate(content).view(np.uint8).reshape(-1, 8), segment)

    def load(self, loader: Loader, part: str, state: Mapping[str, Any]) -> None:
        self.count = state["count"]
        self._open = {int(stream): number for stream, number in state["open"].items()}
        segments = loader.segments(part)
        alive = _members(state["alive"], self.count, sum(segment.rows for segment in segments))
        held = set(self._open.values())
        for segment in segments:
            segment.matrix = loader.content(segment)
            entries = segment.matrix.view(np.int64)[:, 0]
            at = 0
            while at < len(entries):
                number, last_record, used = (int(entry) for entry in entries[at : at + 3])
                stop = at + 3 + used
                if not (self.length <= used <= self.length + SLIDES and stop <= len(entries)):
                    raise damaged(f"the extent at entry {at} of a segment is none")
                numbers = np.cumsum(entries[at + 3 : stop])
                at = stop
                if number in held:
                    numbers = np.append(numbers, np.empty(self.length + SLIDES - used, np.int64))
                if number in alive:
                    self._extents[number] = Extent(numbers, used, last_record)
            if self._is_closed(segment.first):
                self._closed[segment.first] = segment
        if self._extents.keys() != alive or not held <= alive or len(held) != len(self._open):
            raise damaged("the extents it names are not those that it holds")

    def holds(self, references: npt.NDArray[np.int64]) -> bool:
        """Whether every window of these references is there."""
        numbers, places = np.unique(references >> _SHIFT, return_inverse=True)
        used = np.array([self._used(number) for number in numbers.tolist()], np.int64)
        return bool((used[places] >= (references & SLIDES) + self.length).all())

    def _used(self, number: int) -> int:
        extent = self._extents.get(number)
        return -1 if extent is None else extent.used


def _members(ranges: list[list[int]], count: int, most: int) -> set[int]:
    """All numbers of ``[start, stop)`` ranges in ascending order, of which there are at most `most` below `count`."""
    end = members = 0
    for start, stop in ranges:
        members += stop - start
        if not end <= start < stop <= count or members > most:
            raise damaged("the extents it names cannot exist")
        end = stop
    return {number for start, stop in ranges for number in range(start, stop)}
