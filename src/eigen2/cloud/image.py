"""What a bucket holds of one run, and the one way to put something there.

It is listed once and then kept up to date. An object counts as being there when it is proven: put by this process, or
named by a manifest, which is put after the proof. One that only lies there, left by an interrupted batch, is read back
before it counts.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eigen2.cloud.bucket import Bucket, Corrupted, NotThere, Source
from eigen2.cloud.names import MANIFESTS, object_key, object_name
from eigen2.cloud.pace import Throttle, in_parallel
from eigen2.errors import DamagedStateError
from eigen2.store.layout import MANIFEST_LIMIT
from eigen2.store.manifest import Manifest, from_bytes

HASH = re.compile("[0-9a-f]{64}")


@dataclass
class Progress:
    """Of the batch under way, in bytes of its objects; read by other threads, shown by `watch`."""

    total: int = 0
    done: int = 0
    watch: Callable[[int, int], None] = lambda done, total: None

    def add(self, count: int) -> None:
        self.done += count
        self.watch(self.done, self.total)


@dataclass
class There:
    """The listing, as far as this process knows."""

    objects: dict[str, int] = field(default_factory=dict)
    """Sizes of those that are proven."""
    unproven: dict[str, int] = field(default_factory=dict)
    """Sizes of those that only lie there."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Of all other keys."""
    manifests: dict[str, bytes] = field(default_factory=dict)


class Image:
    """Keys are relative to the run. Objects may be put from several threads; the rest is for one thread at a time."""

    def __init__(self, bucket: Bucket, run: str, max_mbps: float | None, stop: threading.Event) -> None:
        self.bucket, self.run, self.stop = bucket, run, stop
        self.throttle = Throttle(max_mbps, stop)
        self.progress = Progress()
        self.bytes = 0
        """Sent since the count was last set to zero, objects and files alike."""
        self.sent_bytes = 0
        """Of everything this process has put."""
        self.cpu_seconds = 0.0
        """Of the threads that carry objects, since the count was last set to zero."""
        self._there: There | None = None
        self._proven: dict[str, int] = {}
        """Sizes of the objects that this process has proven; they stay so as long as they are listed."""
        self._doubted: set[str] = set()
        self._counting = threading.Lock()

    @property
    def there(self) -> There:
        if self._there is None:
            found = There()
            for entry in self.bucket.list(f"{self.run}/"):
                key = entry.key.removeprefix(f"{self.run}/")
                if name := object_name(key):
                    found.unproven[name] = entry.size
                else:
                    found.sizes[key] = entry.size
            found.manifests = read_manifests(self.bucket, self.run)
            named = self.named()
            for name, size in list(found.unproven.items()):
                if (name in named and name not in self._doubted) or self._proven.get(name) == size:
                    found.objects[name] = found.unproven.pop(name)
            self._there = found
        return self._there

    @property
    def proven(self) -> Mapping[str, int]:
        """Sizes of the objects that are known to be there, without asking."""
        return self._proven if self._there is None else self._there.objects

    def forget(self) -> None:
        """List again before the next use: somebody may have changed the bucket while it was out of reach."""
        self._there = None

    def doubt(self, names: Collection[str]) -> None:
        """Objects of these names were found damaged: they are read back before they count as being there."""
        self._doubted |= set(names)
        if self._there is not None:
            for name in self._doubted & self._there.objects.keys() - self._proven.keys():
                self._there.unproven[name] = self._there.objects.pop(name)

    def named(self) -> set[str]:
        """Everything that looks like an object's name in the bucket's manifests and evaluations, read afresh: whoever
        put them there, they are believed."""
        found: set[str] = set()
        for key in (*MANIFESTS, "evaluations.jsonl"):
            try:
                found |= set(HASH.findall(self.bucket.get(self.key(key), MANIFEST_LIMIT).decode("latin-1")))
            except NotThere:
                continue
        return found

    def holds(self, name: str, size: int | None) -> bool:
        """Whether an object is there, in its size if that is known; one that is not proven is read back."""
        there = self.there
        if name in there.objects and size in (None, there.objects[name]):
            return True
        if name in there.unproven and self.is_good(name):
            there.objects[name] = self._proven[name] = there.unproven.pop(name)
            return True
        return False

    def is_good(self, name: str) -> bool:
        """Whether an object is what its name says: read back."""
        try:
            return digest(self.bucket.read(self.key(object_key(name)))).hex() == name
        except NotThere:
            return False

    def put_object(self, name: str, source: Source) -> None:
        self._put(object_key(name), source, shown=True)
        self.there.objects[name] = self._proven[name] = source.size

    def put_file(self, key: str, source: Source | bytes) -> None:
        self._put(key, source, shown=False)
        self.there.sizes[key] = source.size if isinstance(source, Source) else len(source)

    def put_manifest(self, name: str, text: bytes) -> None:
        self.put_file(f"checkpoints/{name}.json", text)
        self.there.manifests[name] = text

    def drop_file(self, key: str) -> None:
        self.bucket.delete(self.key(key))
        del self.there.sizes[key]

    def drop_objects(self, names: Sequence[str], threads: int) -> None:
        there = self.there

        def drop(name: str) -> None:
            self.bucket.delete(self.key(object_key(name)))
            there.objects.pop(name, None)
            there.unproven.pop(name, None)
            self._proven.pop(name, None)

        in_parallel(names, drop, threads, self.stop, self.use)

    def damaged_objects(self, threads: int) -> list[str]:
        """Names of the objects that are not what their names say: all are read. They no longer count as being there."""
        there, damaged = self.there, list[str]()
        self.progress.total, self.progress.done = sum(there.objects.values()), 0

        def check(name: str) -> None:
            good = self.is_good(name)
            with self._counting:
                self.progress.add(there.objects[name])
                if not good:
                    damaged.append(name)

        in_parallel(list(there.objects), check, threads, self.stop)
        for name in damaged:
            del there.objects[name]
            self._proven.pop(name, None)
        return damaged

    def use(self, cpu_seconds: float) -> None:
        """A thread that carried objects has taken so much."""
        with self._counting:
            self.cpu_seconds += cpu_seconds

    def key(self, key: str) -> str:
        return f"{self.run}/{key}"

    def _put(self, key: str, source: Source | bytes, shown: bool) -> None:
        sent = 0

        def spend(count: int) -> None:
            nonlocal sent
            self.throttle.spend(count)
            sent += count
            if shown:
                with self._counting:
                    self.progress.add(count)

        try:
            self.bucket.put(self.key(key), source, spend)
        except BaseException as error:
            if shown:
                with self._counting:
                    self.progress.add(-sent)
            if isinstance(error, Corrupted):
                # What did not survive the way must not be taken for the real thing by whoever lists the bucket next.
                self.bucket.delete(self.key(key))
            raise
        with self._counting:
            size = source.size if isinstance(source, Source) else len(source)
            self.bytes += size
            self.sent_bytes += size


def read_manifests(bucket: Bucket, run: str) -> dict[str, bytes]:
    """Texts of the manifests in a bucket, by name."""
    found = {}
    for key, name in MANIFESTS.items():
        try:
            found[name] = bucket.get(f"{run}/{key}", MANIFEST_LIMIT)
        except NotThere:
            continue
    return found


def parse_manifests(texts: Mapping[str, bytes], directory: Path) -> tuple[dict[str, Manifest], list[str]]:
    """Manifests that verify, and what is said of the others."""
    good: dict[str, Manifest] = {}
    damaged: list[str] = []
    for name, text in texts.items():
        try:
            good[name] = from_bytes(text, directory / f"{name}.json")
        except DamagedStateError as error:
            damaged.append(f"checkpoint '{name}' is damaged and is not uploaded: {error}")
    return good, damaged


def digest(pieces: Iterable[bytes], limit: int | None = None) -> bytes:
    """SHA-256 of the first `limit` bytes."""
    found, left = hashlib.sha256(), limit
    for piece in pieces:
        found.update(piece if left is None else piece[:left])
        left = None if left is None else max(0, left - len(piece))
    return found.digest()
