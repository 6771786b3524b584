"""Everything of a run beside objects and manifests, on its way into a bucket: facts, logs, things people open.

Facts go whenever they changed, the rest a minute apart at least. Logs grow: between two whole copies only their new ends
are sent (`store/tails.py`), so that they always reach as far as the manifests say.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from eigen2.cloud.bucket import Source
from eigen2.cloud.image import Image, digest
from eigen2.cloud.names import FACTS, LOCKS, is_plain, other_files
from eigen2.store.plain_files import open_plain
from eigen2.store.tails import DIRECTORY, parse_tail, tail_name

PERIOD = 60.0
"""Seconds between two copies of a file that keeps changing."""


class Files:
    """`fence` is called before each file, and raises when `directory` has become another one."""

    def __init__(
        self, directory: Path, image: Image, exclude: Sequence[str], fence: Callable[[], None] = lambda: None
    ) -> None:
        self.directory, self.image, self.exclude = directory, image, tuple(exclude)
        self._fence = fence
        self._sent: dict[str, tuple[int, int]] = {}
        """Size and time of change of each file as it was sent."""
        self._copied = -float("inf")

    def forget(self) -> None:
        """Compare every file with the bucket again."""
        self._sent.clear()
        self._copied = -float("inf")

    def put(self, logs: Mapping[str, int], everything: bool, skipped: list[str]) -> int:
        """Put what changed and is due; returns how many were put. `logs` says how far each log must reach; sentences
        about files that cannot be put are added to `skipped`."""
        count, whole = 0, everything or time.monotonic() - self._copied >= PERIOD
        for key in other_files(self.directory, self.exclude):
            self._fence()
            if not is_plain(key):
                skipped.append(f"{key!r} cannot be a name in a bucket; the file is not uploaded.")
            elif whole or key in FACTS:
                count += self._put_whole(key)
            elif key in logs:
                count += self._put_tail(key, logs[key])
        if whole:
            self._copied = time.monotonic()
        return count

    def missing(self) -> list[str]:
        """Those that the bucket does not hold as they are here."""
        return [
            key
            for key in other_files(self.directory, self.exclude)
            if is_plain(key)
            and key not in LOCKS
            and not self._is_there(key, (self.directory / key).stat().st_size)
        ]

    def _put_whole(self, key: str) -> int:
        try:
            state = (self.directory / key).stat()
        except FileNotFoundError:
            return 0
        # Tails that reach beyond the log tell of steps that a resume has dropped.
        self._drop_tails(key, beyond=state.st_size)
        count = self._put_changed(key, state.st_size, state.st_mtime_ns)
        self._drop_tails(key)
        return count

    def _put_changed(self, key: str, size: int, changed: int) -> int:
        if key in LOCKS:
            # Who holds a lock here is nothing to a reader elsewhere; the file is there so that nothing is missing.
            if self.image.there.sizes.get(key) == 0:
                return 0
            self.image.put_file(key, b"")
            return 1
        known = self._sent.get(key)
        if known == (size, changed):
            return 0
        if known is None and self._is_there(key, size):
            self._sent[key] = (size, changed)
            return 0
        self.image.put_file(key, Source(self.directory / key, size))
        self._sent[key] = (size, changed)
        return 1

    def _is_there(self, key: str, size: int) -> bool:
        """Whether the bucket holds these very bytes: read back once, when this process meets the file first."""
        if self.image.there.sizes.get(key) != size:
            return False
        remote = digest(self.image.bucket.read(self.image.key(key)))
        with open_plain(self.directory / key) as file:
            return remote == digest(iter(lambda: file.read(1 << 20), b""), size)

    def _put_tail(self, key: str, needed: int) -> int:
        reached = self._sent.get(key, (0, 0))[0]
        for offset, end in self._tails(key).values():
            reached = max(reached, end) if offset <= reached else reached
        if needed <= reached:
            return 0
        with open_plain(self.directory / key) as file:
            file.seek(reached)
            self.image.put_file(tail_name(key, reached), file.read(needed - reached))
        return 1

    def _drop_tails(self, key: str, beyond: int = -1) -> None:
        for tail, (_, end) in self._tails(key).items():
            if end > beyond:
                self.image.drop_file(tail)

    def _tails(self, key: str) -> dict[str, tuple[int, int]]:
        """Where each tail of a log in the bucket begins and ends, in order."""
        sizes, found = self.image.there.sizes, dict[str, tuple[int, int]]()
        # Asked for every log of every batch, and there may be hundreds: only names that can be meant are parsed.
        for name in sorted(name for name in sizes if name.startswith(f"{DIRECTORY}/{key}.")):
            if tail := parse_tail(name):
                found[name] = (tail[1], tail[1] + sizes[name])
        return found
