"""A snapshot: the replay as it was at one moment, to be written while training goes on.

`blobs(known)` yields what has to be written, `manifest` then names it all. Both may be used on another thread.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

import numpy as np

from eigen2.errors import DamagedStateError
from eigen2.replay import blob
from eigen2.replay.schema import ByteArray, Schema
from eigen2.replay.segments import Segment

FORMAT = 1
Read = Callable[[str], bytes]
Parts = dict[str, list[Segment]]


class Snapshot:
    def __init__(self, head: dict[str, Any], parts: Parts, digest: bytes, compress: bool) -> None:
        self._head, self._parts, self._digest, self._compress = head, parts, digest, compress
        self._held = [segment for part in parts.values() for segment in part]
        for segment in self._held:
            segment.hold()
        self.raw_bytes = 0
        self.written_bytes = 0
        self.written_segments = 0

    def blobs(self, known: Container[str] = ()) -> Iterator[tuple[str, bytes]]:
        """Name and bytes of every segment that is not in `known`, serialised one at a time.

        What has been yielded is let go, so a snapshot is written once; if that fails, take a new one.
        """
        try:
            while self._held:
                segment = self._held[0]
                if segment.name is None or segment.name not in known:
                    data = segment.encode(self._digest, self._compress)
                    name = str(segment.name)
                    if name not in known:
                        self.raw_bytes += segment.raw_bytes
                        self.written_bytes += len(data)
                        self.written_segments += 1
                        yield name, data
                    del data
                self._held.pop(0).let_go()
        finally:
            self.close()

    @property
    def manifest(self) -> dict[str, Any]:
        """Everything needed to restore, as plain JSON; segments not yet serialised are serialised for their names."""
        for segment in self._held:
            if segment.name is None:
                segment.encode(self._digest, self._compress)
        named = {
            part: [[s.first, s.rows, s.name, s.stored_bytes] for s in segments]
            for part, segments in self._parts.items()
        }
        return self._head | {"parts": named}

    def close(self) -> None:
        """Give up what was not written."""
        while self._held:
            self._held.pop().let_go()

    def report(self) -> str:
        """One line for the console, after writing."""
        ratio = self.raw_bytes / self.written_bytes if self.written_bytes else 1.0
        return (
            f"replay: {self._head['total'] - self._head['first']:,} transitions, "
            f"{self.written_segments} new segments, {self.raw_bytes / 1e6:.1f} MB raw, "
            f"{self.written_bytes / 1e6:.1f} MB written, ratio {ratio:.2f}"
        )


class Loader:
    """Reads the parts named in a manifest."""

    def __init__(self, manifest: Mapping[str, Any], read: Read) -> None:
        if manifest.get("format") != FORMAT:
            raise DamagedStateError(
                f"The replay manifest has format {manifest.get('format')!r}, this version reads {FORMAT}."
            )
        self.manifest = manifest
        self.schema = Schema.from_json(manifest["schema"])
        self._read = read

    def segments(self, part: str) -> list[Segment]:
        """The part's segments without their content."""
        return [
            Segment(first, None, rows, name, stored_bytes=stored_bytes)
            for first, rows, name, stored_bytes in self.manifest["parts"].get(part, [])
        ]

    def content(self, segment: Segment, out: ByteArray | None = None) -> ByteArray:
        """The verified content of a segment ``[rows, width]``."""
        name = str(segment.name)
        matrix = blob.decode(name, self._read(name), self.schema.digest, out)
        if len(matrix) != segment.rows:
            raise DamagedStateError(
                f"Replay segment {name} has {len(matrix)} rows, its manifest says {segment.rows}."
            )
        return matrix


def manifest_blobs(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Name and size of every blob a manifest needs."""
    return {name: size for part in manifest["parts"].values() for _, _, name, size in part}


def verify_blobs(manifest: Mapping[str, Any], read: Read) -> int:
    """Read and check every blob a manifest needs, one at a time; returns how many there are."""
    loader = Loader(manifest, read)
    segments = [segment for part in manifest["parts"] for segment in loader.segments(part)]
    for segment in segments:
        loader.content(segment)
    return len(segments)


def manifest_info(manifest: Mapping[str, Any]) -> dict[str, int]:
    """What `replay info` shows of a stored replay."""
    transitions = manifest["total"] - manifest["first"]
    return {
        "transitions": transitions,
        "capacity": manifest["capacity"],
        "ram_bytes": manifest["ram_bytes"],
        "disk_bytes": sum(manifest_blobs(manifest).values()),
        "naive_bytes": transitions * Schema.from_json(manifest["schema"]).naive_bytes,
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
