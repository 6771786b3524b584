"""A source cut into the pieces that are sent, hashed as they pass."""

import hashlib
from collections.abc import Callable, Iterator

from eigen2.cloud.bucket import Source
from eigen2.errors import DamagedStateError
from eigen2.store.plain_files import open_plain

PIECE = 8 * 2**20
"""Sources up to this size go in one request; larger ones in parts of at least this size."""
MOST_PARTS = 9_000
"""S3 allows 10,000 parts of one object."""
MEBIBYTE = 2**20

Spend = Callable[[int], None]


def size_of(source: Source | bytes) -> int:
    return len(source) if isinstance(source, bytes) else source.size


def part_size(size: int) -> int:
    """8 MiB, or as many whole MiB as keep the number of parts allowed."""
    return max(PIECE, -(-size // (MOST_PARTS * MEBIBYTE)) * MEBIBYTE)


def pieces(source: Source | bytes, length: int) -> Iterator[bytes]:
    """All bytes of the source, `length` at a time; an empty source has no piece.

    Where its hash is known, it is proven before the last piece is given away: the file is read once, and what is
    damaged never becomes a whole object.
    """
    if isinstance(source, bytes):
        yield from (source[start : start + length] for start in range(0, len(source), length))
        return
    left, digest = source.size, hashlib.sha256()
    with open_plain(source.path) as file:
        while left:
            wanted = min(length, left)
            piece = _read(file.read, wanted)
            if len(piece) < wanted:
                raise DamagedStateError(
                    f"{source.path} ends {left - len(piece):,} bytes early; it was cut while it was uploaded."
                )
            left -= wanted
            if source.sha256 is not None:
                digest.update(piece)
            if not left:
                _prove(source, digest)
            yield piece
    if not source.size:
        _prove(source, digest)


def whole(source: Source | bytes) -> bytes:
    """A small source in memory."""
    return source if isinstance(source, bytes) else b"".join(pieces(source, max(source.size, 1)))


def sha256(chunks: Iterator[bytes]) -> tuple[int, str]:
    """Size and hash of what comes."""
    size, digest = 0, hashlib.sha256()
    for chunk in chunks:
        size += len(chunk)
        digest.update(chunk)
    return size, digest.hexdigest()


class Sent:
    """The pieces of one source on their way out: each is paid for before it leaves, and shown to `seen` (a hash).

    A failure of the source itself, or of `spend`, is kept: a client library may report it as its own.
    """

    def __init__(
        self,
        source: Source | bytes,
        length: int,
        spend: Spend,
        seen: Callable[[bytes], object] = lambda piece: None,
    ) -> None:
        self._pieces = pieces(source, length)
        self._spend = spend
        self._seen = seen
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            piece = next(self._pieces)
            self._spend(len(piece))
        except StopIteration:
            raise
        except BaseException as failure:
            self.failure = failure
            raise
        self._seen(piece)
        return piece


def md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _prove(source: Source, digest: "hashlib._Hash") -> None:
    if source.sha256 not in (None, found := digest.hexdigest()):
        raise DamagedStateError(
            f"{source.path} is damaged: its content hashes to {found[:16]}..., not to its name; "
            "restore the file from a copy of the run."
        )


def _read(read: Callable[[int], bytes | None], count: int) -> bytes:
    """Raw reads may return less than was asked for."""
    found = read(count) or b""
    if len(found) == count or not found:
        return found
    data = bytearray(found)
    while len(data) < count and (more := read(count - len(data))):
        data += more
    return bytes(data)
