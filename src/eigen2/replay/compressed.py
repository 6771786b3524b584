"""Windows whose rows do not repeat: each compressed on its own (bytes shuffled, zstd), saved many to a segment."""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from eigen2.replay.codec import unpacked
from eigen2.replay.schema import ByteArray
from eigen2.replay.segments import SEGMENT_BYTES, Segment, frozen
from eigen2.replay.snapshot import Loader
from eigen2.replay.stored import damaged


class CompressedWindows:
    """Compressed windows by number, oldest first; ``[elements, itemsize]`` bytes each when unpacked."""

    def __init__(self, nbytes: int, itemsize: int) -> None:
        self.shape = (nbytes // itemsize, itemsize)
        self.count = 0
        self._stored: dict[int, bytes | memoryview] = {}
        self._last_record: dict[int, int] = {}
        self._newest: dict[int, tuple[int, int]] = {}
        """Number and hash of each stream's newest window."""
        self._segments: dict[int, Segment] = {}
        self._open_first = 0
        self._open_bytes = 0

    @property
    def used_bytes(self) -> int:
        return sum(len(window) + 200 for window in self._stored.values())

    def put(self, stream: int, window: ByteArray, record: int) -> int:
        """Keep a window's bytes ``[elements, itemsize]``; the stream's last one again if it is the same."""
        code = zlib.crc32(window.data)
        known, known_code = self._newest.get(stream, (-1, -1))
        if code == known_code and np.array_equal(self._planes(known).T, window):
            self._last_record[known] = max(self._last_record[known], record)
            return known
        stored = zstandard.ZstdCompressor(level=1).compress(np.ascontiguousarray(window.T).data)
        number, self.count = self.count, self.count + 1
        self._stored[number] = stored
        self._last_record[number] = record
        self._newest[stream] = (number, code)
        self._open_bytes += len(stored)
        if self._open_bytes >= SEGMENT_BYTES:
            self._seal()
        return number

    def read(self, number: int, out: ByteArray) -> None:
        """Unpack a window into ``out [elements, itemsize]``."""
        out[:] = self._planes(number).T

    def _planes(self, number: int) -> ByteArray:
        """The shuffled bytes of a window ``[itemsize, elements]``."""
        stored = self._stored[number]
        if unpacked(stored) != self.shape[0] * self.shape[1]:
            raise damaged(f"its compressed window {number} has another length than its field")
        try:
            planes = zstandard.ZstdDecompressor().decompress(stored)
        except zstandard.ZstdError as error:
            raise damaged(f"its compressed window {number} cannot be unpacked ({error})") from error
        return np.frombuffer(planes, np.uint8).reshape(self.shape[::-1])

    def touch(self, numbers: npt.NDArray[np.int64], record: int) -> None:
        """Records up to `record` name these windows."""
        for number in numbers.tolist():
            self._last_record[number] = max(self._last_record[number], record)

    def forget(self, head: int) -> None:
        """Drop segments that only records before `head` name; a stream's newest window stays."""
        held = {number for number, _ in self._newest.values()}
        for first, stop in self._spans():
            if all(self._last_record[n] < head and n not in held for n in range(first, stop)):
                for number in range(first, stop):
                    del self._stored[number], self._last_record[number]
                del self._segments[first]

    def _spans(self) -> list[tuple[int, int]]:
        """Window numbers ``[first, stop)`` of each sealed segment."""
        return [(first, first + _lengths(segment).size) for first, segment in self._segments.items()]

    def _content(self) -> ByteArray:
        """The open windows as bytes ``[n, 1]``: how many, how long each, and all of them in a row."""
        windows = [self._stored[number] for number in range(self._open_first, self.count)]
        head = np.array([len(windows), *map(len, windows)], np.int64).view(np.uint8)
        return np.concatenate([head, *(np.frombuffer(window, np.uint8) for window in windows)])[:, None]

    def _seal(self) -> None:
        segment = Segment(self._open_first, self._content(), plain=True)
        self._segments[self._open_first] = segment
        self._open_first, self._open_bytes = self.count, 0
        self._attach(segment)

    def _attach(self, segment: Segment) -> None:
        """Let the stored windows look into a segment's memory, so that they exist once."""
        lengths = _lengths(segment)
        content = np.asarray(segment.matrix).reshape(-1).data
        at = 8 * (1 + len(lengths))
        for number, length in enumerate(lengths.tolist(), segment.first):
            self._stored[number] = content[at : at + length]
            at += length

    def segments(self) -> dict[str, list[Segment]]:
        records = np.array(list(self._last_record.items()), np.int64).reshape(-1, 2)
        content = list(self._segments.values())
        if self._open_first < self.count:
            content.append(Segment(self._open_first, self._content(), plain=True))
        return {
            "compressed": content,
            "compressed_records": [frozen(np.diff(records, axis=0, prepend=0).view(np.uint8))],
        }

    def state(self) -> dict[str, Any]:
        newest = {str(stream): list(window) for stream, window in self._newest.items()}
        return {"count": self.count, "newest": newest, "open_first": self._open_first}

    def load(self, loader: Loader, prefix: str, state: Mapping[str, Any]) -> None:
        self.count, self._open_first = state["count"], state["open_first"]
        self._newest = {int(stream): (number, code) for stream, (number, code) in state["newest"].items()}
        for segment in loader.segments(f"{prefix}compressed"):
            segment.plain, segment.matrix = True, loader.content(segment)
            numbers = range(segment.first, segment.first + _windows_in(segment))
            if numbers.stop > self.count or any(number in self._stored for number in numbers):
                raise damaged(f"a segment of compressed windows from {segment.first} on is none")
            self._attach(segment)
            if segment.first == self._open_first:
                self._open_bytes = int(_lengths(segment).sum())
            else:
                self._segments[segment.first] = segment
        deltas = loader.content(loader.segments(f"{prefix}compressed_records")[0]).view(np.int64)
        self._last_record = dict(np.cumsum(deltas, axis=0).tolist())
        newest = {number for number, _ in self._newest.values()}
        unsealed = self.count - self._open_first
        if not 0 <= unsealed <= len(self._stored) or any(
            number not in self._stored for number in range(self._open_first, self.count)
        ):
            raise damaged("its newest compressed windows are missing")
        if self._last_record.keys() != self._stored.keys() or not newest <= self._stored.keys():
            raise damaged("the compressed windows it names are not those that it holds")
        length = self.shape[0] * self.shape[1]
        if any(unpacked(window) != length for window in self._stored.values()):
            raise damaged("a compressed window has another length than its field")

    def holds(self, numbers: npt.NDArray[np.int64]) -> bool:
        """Whether every window of these numbers is there."""
        return set(np.unique(numbers).tolist()) <= self._stored.keys()


def _lengths(segment: Segment) -> npt.NDArray[np.int64]:
    """Stored bytes of each window in a segment ``[windows]``."""
    if segment.matrix is None:
        raise RuntimeError("segment of compressed windows without content")
    flat = segment.matrix.reshape(-1)
    return flat[8 : 8 * (1 + int(flat[:8].view(np.int64)[0]))].view(np.int64)


def _windows_in(segment: Segment) -> int:
    """How many windows a segment that has been read holds, if its lengths are those of its content."""
    flat = np.asarray(segment.matrix).reshape(-1)
    count = int(flat[:8].view(np.int64)[0]) if len(flat) >= 8 else -1
    if not 0 < count <= len(flat) // 8 - 1:
        raise damaged("a segment of compressed windows is too short for what it says")
    lengths = flat[8 : 8 * (1 + count)].view(np.int64)
    if (
        (lengths < 0).any()
        or (lengths > len(flat)).any()
        or int(lengths.sum()) != len(flat) - 8 * (1 + count)
    ):
        raise damaged("the lengths of compressed windows are not those of their segment")
    return count
