"""How a segment looks when it is written.

    magic | version | codec | schema digest | rows | width | plane | frames | header crc32
    then per frame: rows | stored bytes | crc32 of the stored bytes | stored bytes

The content is a matrix of bytes ``[rows, width]``, cut into frames of about a megabyte. With the codec ``ZSTD`` a frame's
bytes are shuffled first, so that every `plane`-th byte lies together (signs and exponents repeat, mantissas do not), and
then compressed. The store proves an object against its name; the checksums prove a segment that came without a store.
"""

import struct
import zlib

import numpy as np
import zstandard

from eigen2.errors import DamagedStateError
from eigen2.replay.schema import ByteArray

MAGIC = b"EG2R"
VERSION = 1
RAW, ZSTD = 0, 1
LEVEL = 1
FRAME_BYTES = 1 << 20
_HEADER = struct.Struct("<4sHH8sQIII")
_CRC = struct.Struct("<I")
_FRAME = struct.Struct("<III")


def encode(matrix: ByteArray, digest: bytes, compress: bool, plane: int = 0) -> list[bytes]:
    """A byte matrix ``[rows, width]`` in pieces to be written in a row; `plane` divides the width, 0 stands for the width."""
    rows, width = matrix.shape
    plane = plane or max(1, width)
    step = max(1, FRAME_BYTES // max(1, width))
    header = _HEADER.pack(
        MAGIC, VERSION, ZSTD if compress else RAW, digest, rows, width, plane, -(-rows // step)
    )
    pieces = [header, _CRC.pack(zlib.crc32(header))]
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_content_size=True)
    for first in range(0, rows, step):
        frame = matrix[first : first + step]
        planes = np.ascontiguousarray(frame.reshape(-1, plane).T if compress else frame)
        stored = compressor.compress(planes.data) if compress else planes.tobytes()
        pieces += [_FRAME.pack(len(frame), len(stored), zlib.crc32(stored)), stored]
    return pieces


def decode(name: str, content: bytes, digest: bytes, out: ByteArray | None = None) -> ByteArray:
    """The matrix of a written segment, into `out` when given; any damage is refused, naming the segment."""
    view = memoryview(content)
    start = _HEADER.size + _CRC.size
    if len(view) < start or zlib.crc32(view[: _HEADER.size]) != _CRC.unpack_from(view, _HEADER.size)[0]:
        raise _damaged(name, "its header is broken")
    magic, version, codec, schema, rows, width, plane, frames = _HEADER.unpack_from(view, 0)
    if magic != MAGIC or version != VERSION or codec not in (RAW, ZSTD):
        raise _damaged(name, f"it is not a version {VERSION} replay segment")
    if schema != digest:
        raise _damaged(name, "it was written with another schema")
    matrix = np.empty((rows, width), np.uint8) if out is None else out
    if matrix.shape != (rows, width):
        raise _damaged(name, f"it holds {rows} x {width} bytes where {matrix.shape} were expected")
    decompressor = zstandard.ZstdDecompressor()
    row = 0
    for _ in range(frames):
        if len(view) < start + _FRAME.size:
            raise _damaged(name, "it is cut short")
        count, size, crc = _FRAME.unpack_from(view, start)
        stored = view[start + _FRAME.size : start + _FRAME.size + size]
        if len(stored) != size or zlib.crc32(stored) != crc or row + count > rows:
            raise _damaged(name, f"the frame at byte {start} is broken")
        raw = decompressor.decompress(stored, max_output_size=count * width) if codec == ZSTD else stored
        if len(raw) != count * width:
            raise _damaged(name, f"the frame at byte {start} has the wrong length")
        planes = np.frombuffer(raw, np.uint8)
        if codec == ZSTD:
            planes = planes.reshape(plane, -1).T
        matrix[row : row + count] = planes.reshape(count, width)
        row += count
        start += _FRAME.size + size
    if row != rows or start != len(view):
        raise _damaged(name, "it has missing or surplus frames")
    return matrix


def _damaged(name: str, why: str) -> DamagedStateError:
    return DamagedStateError(
        f"Replay segment {name} cannot be used: {why}; resume from an earlier checkpoint."
    )
