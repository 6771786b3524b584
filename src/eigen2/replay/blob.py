"""Blobs: how segments look when they are written. Immutable, named by their content, checked block by block.

    magic | version | codec | schema digest | rows | width | plane | blocks | header crc32
    then per block: rows | stored bytes | crc32 of the stored bytes | stored bytes

The content is a matrix of bytes ``[rows, width]``. With the codec ``ZSTD`` a block's bytes are shuffled first, so that
every `plane`-th byte lies together (signs and exponents repeat, mantissas do not), and then compressed.
"""

import hashlib
import struct
import zlib
from dataclasses import dataclass

import numpy as np
import zstandard

from eigen2.errors import DamagedStateError
from eigen2.replay.schema import ByteArray

MAGIC = b"EG2R"
VERSION = 1
RAW, ZSTD = 0, 1
LEVEL = 1
BLOCK_BYTES = 1 << 20
_HEADER = struct.Struct("<4sHH8sQIII")
_CRC = struct.Struct("<I")
_BLOCK = struct.Struct("<III")


@dataclass
class Written:
    """Running totals of what was serialised, for the one-line report."""

    raw: int = 0
    stored: int = 0


def encode(matrix: ByteArray, digest: bytes, compress: bool, plane: int = 0) -> bytes:
    """The blob of a byte matrix ``[rows, width]``; `plane` divides the width, 0 stands for the width itself."""
    rows, width = matrix.shape
    plane = plane or max(1, width)
    step = max(1, BLOCK_BYTES // max(1, width))
    blocks = -(-rows // step)
    header = _HEADER.pack(MAGIC, VERSION, ZSTD if compress else RAW, digest, rows, width, plane, blocks)
    parts = [header, _CRC.pack(zlib.crc32(header))]
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_content_size=True)
    for first in range(0, rows, step):
        block = matrix[first : first + step]
        planes = np.ascontiguousarray(block.reshape(-1, plane).T if compress else block)
        stored = compressor.compress(planes.data) if compress else planes.tobytes()
        parts += [_BLOCK.pack(len(block), len(stored), zlib.crc32(stored)), stored]
    return b"".join(parts)


def decode(name: str, blob: bytes, digest: bytes, out: ByteArray | None = None) -> ByteArray:
    """The matrix of a blob, into `out` when given; any damage is refused, naming the blob."""
    view = memoryview(blob)
    if blob_name(blob) != name:
        raise _damaged(name, "its content does not match its name")
    start = _HEADER.size + _CRC.size
    if len(view) < start or zlib.crc32(view[: _HEADER.size]) != _CRC.unpack_from(view, _HEADER.size)[0]:
        raise _damaged(name, "its header is broken")
    magic, version, codec, schema, rows, width, plane, blocks = _HEADER.unpack_from(view, 0)
    if magic != MAGIC or version != VERSION or codec not in (RAW, ZSTD):
        raise _damaged(name, f"it is not a version {VERSION} replay segment")
    if schema != digest:
        raise _damaged(name, "it was written with another schema")
    matrix = np.empty((rows, width), np.uint8) if out is None else out
    if matrix.shape != (rows, width):
        raise _damaged(name, f"it holds {rows} x {width} bytes where {matrix.shape} were expected")
    decompressor = zstandard.ZstdDecompressor()
    row = 0
    for _ in range(blocks):
        if len(view) < start + _BLOCK.size:
            raise _damaged(name, "it is cut short")
        count, size, crc = _BLOCK.unpack_from(view, start)
        stored = view[start + _BLOCK.size : start + _BLOCK.size + size]
        if len(stored) != size or zlib.crc32(stored) != crc or row + count > rows:
            raise _damaged(name, f"the block at byte {start} is broken")
        raw = decompressor.decompress(stored, max_output_size=count * width) if codec == ZSTD else stored
        if len(raw) != count * width:
            raise _damaged(name, f"the block at byte {start} has the wrong length")
        planes = np.frombuffer(raw, np.uint8)
        if codec == ZSTD:
            planes = planes.reshape(plane, -1).T
        matrix[row : row + count] = planes.reshape(count, width)
        row += count
        start += _BLOCK.size + size
    if row != rows or start != len(view):
        raise _damaged(name, "it has missing or surplus blocks")
    return matrix


def blob_name(blob: bytes) -> str:
    """SHA-256 of the stored bytes, so a blob is written once and uploaded once wherever it is kept."""
    return hashlib.sha256(blob).hexdigest()


def _damaged(name: str, why: str) -> DamagedStateError:
    return DamagedStateError(
        f"Replay segment {name} cannot be used: {why}; resume from an earlier checkpoint."
    )
