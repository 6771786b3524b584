"""From a bucket to a run directory. Everything that comes is a stranger's until it is proven.

Names are checked before they become paths, sizes before anything is written, hashes before anything is used; nothing
is executed. Objects come first, manifests after what they name, `config.yaml` last: a directory without it is no run
yet, and the next pull goes on where this one stopped.
"""

import errno
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eigen2.cloud.bucket import Bucket, Corrupted, NotThere
from eigen2.cloud.lease import NAME as LEASE
from eigen2.cloud.names import FACTS, LOCKS, MANIFESTS, PINS, is_plain, object_key, object_name
from eigen2.cloud.pace import in_parallel
from eigen2.errors import ConfigError, DamagedStateError
from eigen2.store.bounded_json import load_bounded
from eigen2.store.checkpoints import Checkpoints
from eigen2.store.disk import ensure_room
from eigen2.store.durable import append_line, make_directory, write_atomically, write_new, write_stream
from eigen2.store.layout import CONFIG_LIMIT, EVALUATIONS_LIMIT, FACTS_LIMIT, MANIFEST_LIMIT, check_layout
from eigen2.store.manifest import Manifest, from_bytes
from eigen2.store.objects import Ref
from eigen2.store.plain_files import read_plain
from eigen2.store.retention import RESUMABLE
from eigen2.store.series import all_series
from eigen2.store.tails import join_tails, parse_tail

THREADS = 8
FACT_LIMITS = {"config.yaml": CONFIG_LIMIT, "run.json": FACTS_LIMIT, "evaluations.jsonl": 64 << 20}
LOG_LIMIT = 16 << 30
GROWTH = 64 << 20
"""Bytes by which a log of a run that is being trained may have grown since it was listed."""

EVALUATED = ("evaluations.jsonl",)
"""What is added up, not replaced."""
CONTRADICTIONS = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EFBIG)
"""A key below another key, or many more bytes than the listing says."""

Show = Callable[[int, int], None]


@dataclass
class Remote:
    """What a bucket holds of one run: a listing, and the manifests in it."""

    bucket: Bucket
    run: str
    objects: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    """Sentences about what cannot be used."""
    manifests: dict[str, Manifest] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)

    def key(self, key: str) -> str:
        return f"{self.run}/{key}"

    @property
    def step(self) -> int | None:
        """Of the newest resumable checkpoint."""
        steps = [manifest.step for name, manifest in self.manifests.items() if name in RESUMABLE]
        return max(steps, default=None)

    def facts(self) -> dict[str, Any]:
        """What run.json says; empty when there is none."""
        return read_facts(self.bucket, self.run)


def read_facts(bucket: Bucket, run: str) -> dict[str, Any]:
    """What the run.json in a bucket says; empty when there is none."""
    try:
        found = load_bounded(bucket.get(f"{run}/run.json", FACT_LIMITS["run.json"]))
    except NotThere:
        return {}
    except ValueError as error:
        raise Corrupted(f"{run}/run.json in the bucket is not JSON ({error}).") from error
    return found if isinstance(found, dict) else {}


def look(bucket: Bucket, run: str) -> Remote:
    """List a run and read its manifests; one that does not verify is refused by name, and the others stand."""
    remote = Remote(bucket, run)
    for entry in bucket.list(f"{run}/"):
        key = entry.key.removeprefix(f"{run}/")
        if name := object_name(key):
            remote.objects[name] = entry.size
        elif is_plain(key):
            remote.files[key] = entry.size
        else:
            remote.refused.append(f"the key {key[:80]!r} cannot be a file name and is left out")
    for key, name in MANIFESTS.items():
        if key in remote.files:
            try:
                text = bucket.get(remote.key(key), MANIFEST_LIMIT)
                remote.manifests[name] = from_bytes(text, Path(remote.key(key)))
                remote.texts[name] = text
            except DamagedStateError as error:
                remote.refused.append(f"checkpoint '{name}' is refused: {error}")
    return remote


@dataclass(frozen=True)
class Pulled:
    checkpoints: tuple[str, ...]
    step: int | None
    objects: int
    bytes: int


class Puller:
    """Fills one directory; its caller holds the directory's lock."""

    def __init__(
        self,
        remote: Remote,
        directory: Path,
        say: Callable[[str], None],
        show: Show = lambda done, total: None,
    ) -> None:
        self.remote, self.directory, self.say, self.show = remote, directory, say, show
        if directory.is_dir():
            check_layout(directory)
        self.checkpoints = Checkpoints(directory)
        self.stop = threading.Event()
        self._objects = self._bytes = 0
        self.damaged: dict[str, str] = {}
        """Objects in the bucket that are not what their names say, each with a sentence."""
        self._lock = threading.Lock()

    def newest(self) -> Pulled:
        """The newest checkpoint that is whole, what it needs, the facts and the logs."""
        self._tell_refused()
        candidates = [m for name, m in self.remote.manifests.items() if name in RESUMABLE]
        for manifest in sorted(candidates, key=lambda m: (-m.step, RESUMABLE.index(m.name))):
            if self._fetched(manifest):
                self._facts()
                return self._committed([manifest.name])
        if self.remote.files.keys() & MANIFESTS.keys():
            raise DamagedStateError(
                f"no checkpoint of {self.remote.run} in the bucket can be used; see above, or `eigen2 sync status`."
            )
        if "config.yaml" not in self.remote.files:
            raise ConfigError(f"the bucket holds no run called {self.remote.run}.")
        self._facts()
        return self._committed([])

    def everything(self) -> Pulled:
        """All checkpoints that are whole, the facts, the logs, and the things people open."""
        self._tell_refused()
        if "config.yaml" not in self.remote.files:
            raise ConfigError(f"the bucket holds no run called {self.remote.run}.")
        whole = [name for name, manifest in self.remote.manifests.items() if self._fetched(manifest)]
        self._facts()
        others = self.remote.files.keys() - {*FACTS, *LOCKS, LEASE, *MANIFESTS} - self._told()
        self._files(key for key in sorted(others) if not key.startswith(("objects/", "checkpoints/", PINS)))
        return self._committed(whole)

    def checkpoint(self, name: str) -> bool:
        """One more checkpoint of a run that is here already and may be training; False when it is not whole."""
        manifest = self.remote.manifests.get(name)
        if manifest is None or name in self.checkpoints.names():
            return False
        # A guest: nothing is collected until the manifest names what was fetched.
        with self.checkpoints.objects.guest():
            # A checkpoint of that name that the trainer has written meanwhile is newer, and stays.
            return self._fetched(manifest) and write_new(self.checkpoints.path(name), self.remote.texts[name])

    def evaluations(self) -> None:
        """Evaluations that are in the bucket alone, with their series: a use of the holdout is never forgotten."""
        with self.checkpoints.objects.guest():
            self._add_evaluations()
            self._bring_series()

    def _tell_refused(self) -> None:
        for sentence in self.remote.refused:
            self.say(sentence)

    def _fetched(self, manifest: Manifest) -> bool:
        """Bring all objects of a checkpoint; False, with a sentence, when one of them is not there or damaged."""
        try:
            self._objects_of(manifest)
        except Corrupted as error:
            self.say(f"checkpoint '{manifest.name}' at step {manifest.step} is refused: {error}")
            return False
        return True

    def _objects_of(self, manifest: Manifest) -> None:
        self._bring({ref.hash: ref.size for ref in manifest.objects.values()})

    def _bring(self, sizes: Mapping[str, int]) -> None:
        """Objects that are not here yet, each proven; sizes are those their manifest gives."""
        for name, size in sizes.items():
            if name in self.damaged:
                raise Corrupted(self.damaged[name])
            if self.remote.objects.get(name) != size:
                fact = (
                    f"{self.remote.objects[name]:,} bytes long" if name in self.remote.objects else "missing"
                )
                raise Corrupted(
                    f"{self.remote.key(object_key(name))} is {fact} in the bucket, not {size:,} bytes long"
                )
        make_directory(self.directory)
        objects = self.checkpoints.objects
        missing = [Ref(name, size) for name, size in sizes.items() if objects.find(name) is None]
        total, done = sum(ref.size for ref in missing), 0
        ensure_room(self.directory, total)

        def fetch(ref: Ref) -> None:
            nonlocal done
            try:
                objects.receive(ref, self.remote.bucket.read(self.remote.key(object_key(ref.hash))))
            except (DamagedStateError, NotThere) as error:
                self.damaged[ref.hash] = str(error)
                raise Corrupted(str(error)) from error
            with self._lock:
                done += ref.size
                self._objects += 1
                self._bytes += ref.size
                self.show(done, total)

        with objects.batch():
            in_parallel(missing, fetch, THREADS, self.stop)

    def _facts(self) -> None:
        """Facts, logs and their tails, the best agent, and the series that evaluations name."""
        self._files(sorted(self._told() | {"run.json"} & self.remote.files.keys()))
        join_tails(self.directory)
        self._add_evaluations()
        self._bring_series()

    def _told(self) -> set[str]:
        """Keys of the logs, their tails and the best agent."""
        logs = {key for key in self.remote.files if key.endswith(".jsonl") and "/" not in key}
        tails = {key for key in self.remote.files if parse_tail(key)}
        return (logs | tails | {"best_agent.safetensors"} & self.remote.files.keys()) - set(EVALUATED)

    def _add_evaluations(self) -> None:
        """To those that are here, the lines that only the bucket has."""
        for key in EVALUATED:
            if key not in self.remote.files:
                continue
            path = self.directory / key
            _refuse_links(self.directory, path)
            make_directory(self.directory)
            lines = self.remote.bucket.get(self.remote.key(key), FACT_LIMITS[key]).splitlines(keepends=True)
            here = (
                set(read_plain(path, EVALUATIONS_LIMIT).splitlines(keepends=True)) if path.exists() else set()
            )
            if new := b"".join(line for line in lines if line.endswith(b"\n") and line not in here):
                append_line(path, new)

    def _bring_series(self) -> None:
        series = {
            name: self.remote.objects[name]
            for name in all_series(self.directory / "evaluations.jsonl")
            if name in self.remote.objects
        }
        try:
            self._bring(series)
        except Corrupted as error:
            self.say(f"a series of an evaluation is left out: {error}")

    def _files(self, keys: Collection[str] | Any) -> None:
        for key in keys:
            size, limit = self.remote.files[key], FACT_LIMITS.get(key, LOG_LIMIT)
            if size > limit:
                raise Corrupted(
                    f"{self.remote.key(key)} is {size:,} bytes long; at most {limit:,} are expected."
                )
            path = self.directory / key
            _refuse_links(self.directory, path)
            ensure_room(self.directory, size)
            try:
                make_directory(path.parent)
                write_stream(path, self.remote.bucket.read(self.remote.key(key)), min(limit, size + GROWTH))
            except OSError as error:
                if error.errno not in CONTRADICTIONS:
                    raise
                raise Corrupted(
                    f"{self.remote.key(key)} in the bucket cannot become a file here ({error.strerror})."
                ) from error

    def _committed(self, names: list[str]) -> Pulled:
        for name in names:
            make_directory(self.checkpoints.directory)
            write_atomically(self.checkpoints.path(name), self.remote.texts[name])
        if "config.yaml" in self.remote.files:
            self._files(["config.yaml"])
        steps = [self.remote.manifests[name].step for name in names]
        return Pulled(tuple(names), max(steps, default=None), self._objects, self._bytes)


def _refuse_links(directory: Path, path: Path) -> None:
    """A link below the directory could lead out of it."""
    for place in (path, *path.parents):
        if place == directory:
            return
        if place.is_symlink():
            raise ConfigError(f"{place} is a link; nothing is written through it.")
