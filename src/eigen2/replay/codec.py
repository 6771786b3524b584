"""How a segment looks when it is written.

    magic | version | codec | schema digest | rows | width | plane | frames | header crc32
    then per frame: rows | stored bytes | crc32 of the stored bytes | stored bytes

The content is a matrix of bytes ``[rows, width]``, cut into frames of about a megabyte. With the codec ``ZSTD`` a frame's
bytes are shuffled first, so that every `plane`-th byte lies together (signs and exponents repeat, mantissas do not), and
then compressed. The store proves an object against its name; the checksums prove a segment that came without a store.
"""

import struct
import zlib
from collections.abc import Iterator

import numpy as np
import zstandard

from eigen2.errors import DamagedStateError
from eigen2.replay.schema import ByteArray

MAGIC = b"EG2R"
VERSION = 1
RAW, ZSTD = 0, 1
LEVEL = 1
FRAME_BYTES = 1 << 20
LARGEST_FRAME = 16 * FRAME_BYTES
"""No frame is unpacked that says it is longer, unless a single row is."""
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


def decode(
    name: str, content: bytes, digest: bytes, shape: tuple[int, int], out: ByteArray | None = None
) -> ByteArray:
    """The matrix ``[rows, width]`` of a written segment, into `out` when given; any damage is refused, naming the segment.

    Memory is taken only for what the content can hold: a frame says how long it is, and is believed when it fits.
    """
    if out is not None and out.shape != shape:
        raise _damaged(name, f"{out.shape} bytes were expected, its manifest says {shape}")
    matrix, row = out, 0
    for frame in _frames(name, content, digest, shape):
        if matrix is None:
            matrix = np.empty(shape, np.uint8)
        matrix[row : row + len(frame)] = frame
        row += len(frame)
    return np.empty(shape, np.uint8) if matrix is None else matrix


def check(name: str, content: bytes, digest: bytes, shape: tuple[int, int]) -> None:
    """Decode and forget, one frame in memory at a time."""
    for _ in _frames(name, content, digest, shape):
        pass


def _frames(name: str, content: bytes, digest: bytes, shape: tuple[int, int]) -> Iterator[ByteArray]:
    """Rows ``[some, width]`` of a written segment, in order."""
    view = memoryview(content)
    start = _HEADER.size + _CRC.size
    if len(view) < start or zlib.crc32(view[: _HEADER.size]) != _CRC.unpack_from(view, _HEADER.size)[0]:
        raise _damaged(name, "its header is broken")
    magic, version, codec, schema, rows, width, plane, frames = _HEADER.unpack_from(view, 0)
    if magic != MAGIC or version != VERSION or codec not in (RAW, ZSTD):
        raise _damaged(name, f"it is not a version {VERSION} replay segment")
    if schema != digest:
        raise _damaged(name, "it was written with another schema")
    if (rows, width) != shape:
        raise _damaged(name, f"it holds {rows} x {width} bytes where {shape[0]} x {shape[1]} are expected")
    if plane < 1 or width % plane or frames * _FRAME.size > len(view) - start:
        raise _damaged(name, "its header contradicts itself")
    decompressor = zstandard.ZstdDecompressor()
    row = 0
    for _ in range(frames):
        if len(view) < start + _FRAME.size:
            raise _damaged(name, "it is cut short")
        count, size, crc = _FRAME.unpack_from(view, start)
        stored = view[start + _FRAME.size : start + _FRAME.size + size]
        if len(stored) != size or zlib.crc32(stored) != crc or row + count > rows:
            raise _damaged(name, f"the frame at byte {start} is broken")
        length = count * width
        if length > max(LARGEST_FRAME, width) or length != (unpacked(stored) if codec == ZSTD else size):
            raise _damaged(name, f"the frame at byte {start} has the wrong length")
        try:
            raw = decompressor.decompress(stored) if codec == ZSTD else stored
        except zstandard.ZstdError as error:
            raise _damaged(name, f"the frame at byte {start} is broken ({error})") from error
        planes = np.frombuffer(raw, np.uint8)
        if codec == ZSTD and length:
            planes = planes.reshape(plane, -1).T
        yield planes.reshape(count, width)
        row += count
        start += _FRAME.size + size
    if row != rows or start != len(view):
        raise _damaged(name, "it has missing or surplus frames")


def unpacked(stored: bytes | memoryview) -> int:
    """How long compressed bytes say they are when unpacked; -1 when they do not say, or are none.

    Asked before every unpacking: whatever limit it is given, the library allocates what the bytes say.
    """
    try:
        return int(zstandard.frame_content_size(stored))
    except zstandard.ZstdError:
        return -1


def _damaged(name: str, why: str) -> DamagedStateError:
    return DamagedStateError(
        f"Replay segment {name} cannot be used: {why}; resume from an earlier checkpoint."
    )
