"""One run directory and its image in a bucket: what is missing there is put, manifests last.

A batch is what the manifests of one moment name. Objects are immutable and named by their content: each is sent once,
whatever it belongs to. While a batch is under way it is pinned; the next one is whatever is newest when it ends, so a
slow link skips checkpoints and never queues them.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eigen2.cloud.bucket import Bucket, Source
from eigen2.cloud.files import PERIOD, Files
from eigen2.cloud.image import HASH, Image, parse_manifests
from eigen2.cloud.pace import in_parallel
from eigen2.cloud.pins import Pins
from eigen2.cloud.words import size_words
from eigen2.errors import DamagedStateError
from eigen2.store.checkpoints import Checkpoints
from eigen2.store.manifest import Manifest
from eigen2.store.objects import Ref
from eigen2.store.series import all_series

THREADS = 8
MOST_GARBAGE = 2
"""Garbage in the bucket is collected at once when it is this many times what is needed there, else once a minute."""
LAST = ("previous", "init", "best", "final", "latest")
"""The order in which manifests are put: `latest` is replaced when everything else is there."""


@dataclass(frozen=True)
class Sent:
    """What one batch did."""

    step: int | None
    """Step of the newest checkpoint in it; None when the run has none."""
    objects: int = 0
    bytes: int = 0
    """Of objects and files alike."""
    already: int = 0
    """Objects that the batch needed and that were there."""
    files: int = 0
    seconds: float = 0.0
    damaged: tuple[str, ...] = ()
    """Checkpoints that are damaged here and were therefore not put, each with the reason."""
    skipped: tuple[str, ...] = ()
    """Files that cannot be put, each in a sentence."""
    newest: bool = True
    """False when this was an older batch that had been cut short: there is more to send."""

    def line(self) -> str:
        where = "start" if self.step is None else f"step {self.step}"
        new = f"{self.objects} new object" + ("" if self.objects == 1 else "s")
        return f"{where}: {new}, {size_words(self.bytes)} uploaded in {self.seconds:.1f} s; {self.already} already there"


@dataclass
class _Batch:
    texts: dict[str, bytes]
    manifests: dict[str, Manifest]
    damaged: list[str]
    series: set[str]
    is_newest: bool = True
    skipped: list[str] = field(default_factory=list)

    @property
    def refs(self) -> dict[str, Ref]:
        return {ref.hash: ref for manifest in self.manifests.values() for ref in manifest.objects.values()}

    @property
    def newest(self) -> Manifest | None:
        return max(self.manifests.values(), key=lambda manifest: manifest.step, default=None)

    def leave_out(self, bad: Mapping[str, str]) -> None:
        """Manifests that name a damaged object are not put."""
        for name, manifest in list(self.manifests.items()):
            if wrong := [bad[ref.hash] for ref in manifest.objects.values() if ref.hash in bad]:
                self.damaged.append(f"checkpoint '{name}' is damaged here and is not uploaded: {wrong[0]}")
                del self.texts[name], self.manifests[name]
        for name in bad.keys() & self.series:
            self.damaged.append(f"a series of an evaluation is damaged here and is not uploaded: {bad[name]}")


class Mirror:
    """Used by one thread at a time; only `progress` may be read by others.

    `fence` raises when `directory` has become another run's: nothing of that is sent under this one's name.
    """

    def __init__(
        self, directory: Path, bucket: Bucket, run: str, url: str,
        *, exclude: Sequence[str] = (), max_mbps: float | None = None, fence: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.directory, self.bucket, self._fence = directory, bucket, fence
        self.stop = threading.Event()
        self.image = Image(bucket, run, max_mbps, self.stop)
        self.files = Files(directory, self.image, exclude, fence)
        self.pins = Pins(directory, url)
        self.checkpoints = Checkpoints(directory)
        self.progress = self.image.progress
        self.threads = THREADS
        self._parsed: dict[tuple[str, bytes], Manifest] = {}
        self._collected = -float("inf")
        self._needed_bytes = 0

    def forget(self) -> None:
        """Compare everything with the bucket again: it was out of reach, and somebody may have changed it."""
        self.image.forget()
        self.files.forget()

    def remote_manifests(self) -> dict[str, Manifest]:
        """Those in the bucket that verify."""
        return self._parse(self.image.there.manifests)[0]

    def send(self, everything: bool = False, before_manifests: Callable[[], None] = lambda: None) -> Sent:
        """Put what is missing of the newest state; with `everything`, also files whose minute is not over.

        `before_manifests` is called when all objects are there: the last moment to find out that the lease is lost.
        """
        began, self.image.bytes = time.monotonic(), 0
        there = self.image.there
        self._fence()
        batch = self._take()
        # What was read since the last look is of this run, or is not sent.
        self._fence()
        put = self._put_objects(batch, self._missing(batch))
        newest = batch.newest
        logs = {} if newest is None else {f"{name}.jsonl": size for name, size in newest.logs.items()}
        files = self.files.put(logs, everything, batch.skipped)
        self._fence()
        before_manifests()
        for name in LAST:
            text = batch.texts.get(name)
            if text is not None and there.manifests.get(name) != text:
                self.image.put_manifest(name, text)
                files += 1
        self._fence()
        self.pins.remove()
        needed = batch.refs.keys() | batch.series
        self._needed_bytes = sum(ref.size for ref in batch.refs.values())
        return Sent(
            step=None if newest is None else newest.step, objects=len(put), bytes=self.image.bytes,
            already=len(needed) - len(put), files=files, seconds=time.monotonic() - began,
            damaged=tuple(batch.damaged), skipped=tuple(batch.skipped), newest=batch.is_newest,
        )  # fmt: skip

    def waiting(self) -> tuple[int, int]:
        """Objects and bytes that the newest local state needs and the bucket is not known to hold."""
        manifests = self._parse(self.checkpoints.contents())[0].values()
        refs = {ref.hash: ref.size for manifest in manifests for ref in manifest.objects.values()}
        lacking = [size for name, size in refs.items() if self.image.proven.get(name) != size]
        return len(lacking), sum(lacking)

    def same_manifests(self) -> bool:
        here = self.checkpoints.contents()
        return all(self.image.there.manifests.get(name) == text for name, text in here.items())

    def collect_garbage(self, now: bool = False) -> int:
        """Delete the objects that no manifest and no evaluation in the bucket names; returns their number.

        With `now` the bucket is listed again: what was given up after a timeout may have arrived all the same.
        """
        if now:
            self.image.forget()
        there = self.image.there
        much = sum(there.objects.values()) > (1 + MOST_GARBAGE) * self._needed_bytes
        if not (now or much or time.monotonic() - self._collected >= PERIOD):
            return 0
        live = self.image.named() | set(HASH.findall(b"".join(self.pins.read().values()).decode("latin-1")))
        garbage = [name for name in (*there.objects, *there.unproven) if name not in live]
        self.image.drop_objects(garbage, self.threads)
        self._collected = time.monotonic()
        return len(garbage)

    def _take(self) -> _Batch:
        """The newest local state, pinned; or the batch that was cut short, if clearly less of it is missing.

        Going over to the newest each time would never finish anything on a link that is slower than the checkpoints. A
        batch that is not ahead of the bucket is never taken up again: another machine may have gone on from there.
        """
        unfinished = self.pins.read()
        if unfinished:
            begun, newest = self._batch(unfinished), self._batch(self.checkpoints.contents())
            there = max((manifest.step for manifest in self.remote_manifests().values()), default=-1)
            ahead = begun.newest is not None and begun.newest.step > there
            if ahead and self._lacking(begun) < 0.8 * self._lacking(newest):
                begun.is_newest = False
                return begun
        return self._batch(self._pinned_now())

    def _batch(self, texts: Mapping[str, bytes]) -> _Batch:
        manifests, damaged = self._parse(texts)
        return _Batch(
            {name: texts[name] for name in manifests},
            manifests,
            damaged,
            all_series(self.directory / "evaluations.jsonl"),
        )

    def _pinned_now(self) -> dict[str, bytes]:
        """Manifests as they are, none of whose objects is collected from now on."""
        there = self.image.there.manifests
        while True:
            texts = self.checkpoints.contents()
            if not texts or all(there.get(name) == text for name, text in texts.items()):
                return texts
            self.pins.write(texts)
            # A save between the two looks may have collected what the first one saw, before the pin was there.
            if self.checkpoints.contents() == texts:
                return texts

    def _parse(self, texts: Mapping[str, bytes]) -> tuple[dict[str, Manifest], list[str]]:
        """Manifests that verify, and what is said of the others; a text is read once as long as it is in use."""
        new = {name: text for name, text in texts.items() if (name, text) not in self._parsed}
        good, damaged = parse_manifests(new, self.checkpoints.directory)
        for name, manifest in good.items():
            self._parsed = {key: known for key, known in self._parsed.items() if key[0] != name}
            self._parsed[name, texts[name]] = manifest
        found = {name: self._parsed.get((name, text)) for name, text in texts.items()}
        return {name: manifest for name, manifest in found.items() if manifest is not None}, damaged

    def _lacking(self, batch: _Batch) -> int:
        """Bytes of a batch that the bucket does not hold."""
        there = self.image.there.objects
        return sum(ref.size for ref in batch.refs.values() if there.get(ref.hash) != ref.size)

    def _missing(self, batch: _Batch) -> list[Ref]:
        """What has to be put: here, and not in the bucket, in its full size."""
        missing: dict[str, Ref] = {}
        bad: dict[str, str] = {}
        refs = batch.refs
        for name in sorted(refs.keys() | batch.series):
            ref = refs.get(name)
            if self.image.holds(name, None if ref is None else ref.size):
                continue
            try:
                missing[name] = Ref(name, self._size(name, ref))
            except DamagedStateError as error:
                bad[name] = str(error)
        batch.leave_out(bad)
        needed = batch.refs.keys() | batch.series
        return [ref for name, ref in missing.items() if name in needed]

    def _size(self, name: str, ref: Ref | None) -> int:
        """Of an object that is here; its content is proven while it is sent."""
        path = self.checkpoints.objects.path(name)
        size = path.stat().st_size if path.exists() else None
        if size is None or (ref is not None and ref.size != size):
            # The store says in its own words what is wrong.
            return self.checkpoints.objects.check(name)
        return size

    def _put_objects(self, batch: _Batch, missing: Sequence[Ref]) -> list[Ref]:
        """Put them, leave out what turns out to be damaged, and return what was put."""
        self.progress.total, self.progress.done = sum(ref.size for ref in missing), 0
        bad: dict[str, str] = {}

        def put(ref: Ref) -> None:
            try:
                path = self.checkpoints.objects.path(ref.hash)
                self.image.put_object(ref.hash, Source(path, ref.size, ref.hash))
            except (DamagedStateError, OSError):
                if (damage := self._damage(ref.hash)) is None:
                    raise
                bad[ref.hash] = damage

        in_parallel(missing, put, self.threads, self.stop, self.image.use)
        batch.leave_out(bad)
        return [ref for ref in missing if ref.hash not in bad]

    def _damage(self, name: str) -> str | None:
        """What the store says of an object that is not good here."""
        try:
            self.checkpoints.objects.check(name)
        except DamagedStateError as error:
            return str(error)
        return None
