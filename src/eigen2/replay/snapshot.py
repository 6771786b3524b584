"""A snapshot: the replay as it was at one moment, to be written, on any thread, while training continues."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eigen2.replay import codec
from eigen2.replay.schema import ByteArray
from eigen2.replay.segments import Has, Put, Segment
from eigen2.replay.stored import checked, widths

Read = Callable[[str], bytes]
Parts = dict[str, list[Segment]]


class Snapshot:
    def __init__(self, head: dict[str, Any], parts: Parts, digest: bytes, compress: bool) -> None:
        self._head, self._parts, self._digest, self._compress = head, parts, digest, compress
        self._held = [segment for part in parts.values() for segment in part]
        for segment in self._held:
            segment.hold()

    def write(self, put: Put, has: Has) -> dict[str, Any]:
        """Store the segments that are not there yet; returns the manifest, plain JSON, that names all of them.

        What has been written is let go, so a snapshot is written once; if that fails, take a new one.
        """
        try:
            while self._held:
                self._held[0].write(put, has, self._digest, self._compress)
                self._held.pop(0).let_go()
        finally:
            self.close()
        named = {
            part: [[s.first, s.rows, s.name, s.stored_bytes] for s in segments]
            for part, segments in self._parts.items()
        }
        return self._head | {"parts": named}

    def close(self) -> None:
        """Give up what was not written."""
        while self._held:
            self._held.pop().let_go()


class Loader:
    """Reads the parts named in a manifest."""

    def __init__(self, manifest: Mapping[str, Any], read: Read) -> None:
        self.stored, self.schema = checked(manifest)
        self.manifest, self.digest, self._widths = manifest, self.schema.digest, widths(self.schema)
        self._read = read

    def segments(self, part: str) -> list[Segment]:
        """The part's segments without their content."""
        return [
            Segment(first, None, rows, name, stored_bytes=stored_bytes, width=self._widths.get(part, 0))
            for first, rows, name, stored_bytes in self.stored.parts.get(part, [])
        ]

    def content(self, segment: Segment, out: ByteArray | None = None) -> ByteArray:
        """The content of a segment ``[rows, width]``; memory for it is taken when it is known to be of that shape."""
        name = str(segment.name)
        return codec.decode(name, self._read(name), self.digest, (segment.rows, segment.width), out)

    def check(self, segment: Segment) -> None:
        """Decode a segment a frame at a time, and keep nothing."""
        name = str(segment.name)
        codec.check(name, self._read(name), self.digest, (segment.rows, segment.width))


def manifest_segments(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Name and size of every object a manifest needs."""
    return {name: size for part in manifest["parts"].values() for _, _, name, size in part}


def verify_segments(manifest: Mapping[str, Any], read: Read) -> int:
    """Read and decode every segment that a manifest names, one at a time; returns how many there are."""
    loader = Loader(manifest, read)
    segments = [segment for part in loader.stored.parts for segment in loader.segments(part)]
    for segment in segments:
        loader.check(segment)
    return len(segments)


def manifest_info(manifest: Mapping[str, Any]) -> dict[str, int]:
    """What `replay info` shows of a stored replay."""
    stored, schema = checked(manifest)
    transitions = stored.total - stored.first
    return {
        "transitions": transitions,
        "capacity": stored.capacity,
        "ram_bytes": stored.ram_bytes,
        "disk_bytes": sum(manifest_segments(manifest).values()),
        "naive_bytes": transitions * schema.naive_bytes,
    }


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """A PCG64 generator's state as JSON; its 128-bit numbers in hex."""
    state: dict[str, Any] = dict(generator.bit_generator.state)
    inner = state["state"]
    return {
        "bit_generator": state["bit_generator"],
        "state": hex(inner["state"]),
        "inc": hex(inner["inc"]),
        "has_uint32": int(state["has_uint32"]),
        "uinteger": int(state["uinteger"]),
    }


def set_generator_state(generator: np.random.Generator, state: Mapping[str, Any]) -> None:
    generator.bit_generator.state = {
        "bit_generator": state["bit_generator"],
        "state": {"state": int(state["state"], 16), "inc": int(state["inc"], 16)},
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }
