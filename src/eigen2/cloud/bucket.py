"""What every object store must be able to do; one small interface, the same for all providers.

Keys are relative to the location's prefix, with `/` between their parts. A `put` returns only when what the store holds
is proven to be what was sent: by a checksum that the store computed itself, or by reading it back.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from eigen2.errors import ConfigError, DamagedStateError, Eigen2Error


class Unreachable(Eigen2Error):
    """The network or the server failed; the same request may succeed later."""

    exit_code = 75


class Refused(ConfigError):
    """Credentials are missing, wrong, expired, or not enough for the request."""


class NotThere(ConfigError):
    """The bucket, or the key in it, does not exist."""


class Corrupted(DamagedStateError):
    """The store holds something else than was sent."""


@dataclass(frozen=True)
class Entry:
    """One stored object, as a listing shows it."""

    key: str
    size: int
    modified: datetime
    """When it was written, by the server's clock."""


@dataclass(frozen=True)
class Source:
    """The first `size` bytes of a file: what is appended while they are sent is left for the next time."""

    path: Path
    size: int
    sha256: str | None = None
    """What they must hash to, if that is known; other bytes are DamagedStateError and are never stored."""


class Bucket(ABC):
    """Objects below one prefix. May be used by several threads at once.

    Failures are Unreachable, Refused, NotThere or Corrupted, each with a sentence that holds no secret.
    """

    @abstractmethod
    def put(
        self, key: str, source: Source | bytes, spend: Callable[[int], None] = lambda count: None
    ) -> None:
        """Store, replacing what is there, and prove it. `spend` is called with each piece's size before it is sent; it
        may wait (bandwidth limit) or raise (the upload is not wanted any more)."""

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Store unless the key exists; False when it does."""

    @abstractmethod
    def read(self, key: str) -> Iterator[bytes]:
        """The object's bytes, piece by piece; NotThere when there is none."""

    @abstractmethod
    def head(self, key: str) -> Entry | None:
        """What a listing would say about one key."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[Entry]:
        """All objects whose key begins with `prefix`, which is empty or ends with `/`."""

    @abstractmethod
    def names(self, prefix: str = "") -> Iterator[str]:
        """The first part after `prefix` of every key below it, each once: like the names in a directory."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove; what is not there is removed already."""

    @abstractmethod
    def renew(self) -> None:
        """Read the credentials again, from the environment and the files it names."""

    def get(self, key: str, limit: int) -> bytes:
        """A small object in memory; more than `limit` bytes are damage."""
        data = bytearray()
        for piece in self.read(key):
            data += piece
            if len(data) > limit:
                raise Corrupted(f"{key} is larger than the {limit:,} bytes it may have.")
        return bytes(data)
