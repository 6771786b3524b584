"""Saving and finding checkpoints, so that a kill or a power cut at any instant loses nothing committed.

A save stores objects first and makes them durable; then `latest` is copied to `previous`, then the new manifests
are written, `latest` last; only then is garbage collected. Each manifest is replaced by a rename, so at every
instant `latest` is a complete checkpoint: the old one until its rename, the new one from then on.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from eigen2.errors import DamagedStateError, ResourceError, RunMoved
from eigen2.store.disk import MARGIN_BYTES, ensure_room
from eigen2.store.durable import (
    Buffer,
    make_subdirectory,
    remove_temporaries,
    sync_directory,
    write_atomically,
)
from eigen2.store.layout import MANIFEST_LIMIT
from eigen2.store.manifest import OWN_DATA, Manifest, from_bytes, read_content, read_manifest, to_bytes
from eigen2.store.objects import Objects, Ref
from eigen2.store.plain_files import check_kind, read_plain
from eigen2.store.retention import NAMES, RESUMABLE, Plan, live_objects, retain
from eigen2.store.shortage import is_shortage

Result = TypeVar("Result")

NONSENSE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    RuntimeError,
)
"""What reading something that is not a state raises."""
SAVE_FAILURES = (OSError, ResourceError)
"""What `save` raises when the disk is full or broken; the checkpoints committed before are untouched."""


ATTEMPTS = 100
"""Times that a reader who cannot keep objects from being collected looks again."""


class ReplaySnapshot(Protocol):
    """An immutable view of a replay; it may be written on another thread while training continues."""

    def write(self, put: Callable[[Sequence[Buffer]], str], has: Callable[[str], bool]) -> Mapping[str, Any]:
        """Store what is new; returns a JSON manifest to restore from.

        `put` stores one object and returns its name; `has` says whether an object of that name is there. Every
        object that the replay needs goes through one of them.
        """


@dataclass(frozen=True)
class NewCheckpoint:
    """What a save commits. Without a replay, the one of the newest checkpoint is carried over."""

    step: int
    state: Mapping[str, Any]
    replay: ReplaySnapshot | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    logs: Mapping[str, int] = field(default_factory=dict)
    identity: Mapping[str, Any] = field(default_factory=dict)
    own_data: Callable[[Objects], Ref | None] | None = None
    """Stores the user's own data unless it is there; every manifest of the save names it."""
    log_hashes: Mapping[str, str] = field(default_factory=dict)
    sealed: tuple[str, ...] = ()
    inexact: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkpoint:
    """A committed checkpoint, and where its objects are; its replay is restored with `objects.read`."""

    manifest: Manifest
    objects: Objects

    def state(self) -> dict[str, Any]:
        """The training state, every byte proven."""
        # Imported here: whoever only looks at manifests does not need torch.
        from eigen2.store.state import from_blobs

        refs = self.manifest.below("state/")
        with self.loading():
            return from_blobs(list(refs), lambda name: self.objects.read(refs[name].hash, refs[name].size))

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Inside, a failure to make sense of the checkpoint is damage: its bytes may be a stranger's, who can hash."""
        try:
            yield
        except NONSENSE as error:
            if is_shortage(error):
                raise
            raise self.unusable(f"{type(error).__name__}: {str(error)[:200]}") from error

    def unusable(self, why: str) -> DamagedStateError:
        """Its bytes are those that were hashed, and this program cannot continue from them."""
        manifest = self.manifest
        path = self.objects.root.with_name("checkpoints") / f"{manifest.name}.json"
        return DamagedStateError(
            f"checkpoint '{manifest.name}' at step {manifest.step} cannot be loaded, though every hash of it matches ({why}); "
            f"use the version and the plug-ins that run.json names, or move {path} away to go on from an older one"
        )

    def own_data(self) -> Path | None:
        """The file that holds the user's own data, every byte proven; None when the run does not keep it."""
        ref = self.manifest.objects.get(OWN_DATA)
        if ref is None:
            return None
        try:
            self.objects.check(ref.hash, ref.size)
        except DamagedStateError as error:
            raise DamagedStateError(
                f"{error}; it is the run's copy of its data, and a resume that names the file puts it back"
            ) from error
        return self.objects.path(ref.hash)

    def verify(self, own_data: bool = True) -> None:
        """Read every object; raises DamagedStateError for the first one that is missing or damaged.

        Without `own_data` the copy of the user's data need not be good.
        """
        for name, ref in self.manifest.objects.items():
            if name != OWN_DATA:
                self.objects.check(ref.hash, ref.size)
        if own_data:
            self.own_data()


@dataclass(frozen=True)
class Recovery:
    """The checkpoint to resume from (None: the run has none yet), and why newer ones were refused."""

    checkpoint: Checkpoint | None
    refused: tuple[str, ...]


def tell_refused(recovery: Recovery, say: Callable[[str], None]) -> None:
    """Name each checkpoint that was passed over, and the one that is used."""
    for sentence in recovery.refused:
        used = None if recovery.checkpoint is None else recovery.checkpoint.manifest
        say(sentence if used is None else f"{sentence}; '{used.name}' of step {used.step} is used instead.")


class Checkpoints:
    """The checkpoints of one run directory. Saving needs the run's lock, looking does not.

    `pinned` gives the hashes of objects that must stay although no manifest names them (uploads under way). `fence` is
    called before anything is changed; it raises when `run_dir` is no longer the directory that was meant.
    """

    def __init__(
        self,
        run_dir: Path,
        pinned: Callable[[], Collection[str]] = tuple,
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        self.directory = run_dir / "checkpoints"
        self.objects = Objects(run_dir / "objects", fence)
        self.pinned, self._fence = pinned, fence
        self.parity = 0.0
        """Share of parity that a save adds; 0 for none."""
        self._proven: dict[str, bytes] = {}
        """Texts of the manifests whose checkpoints this process has written or read completely."""
        self._known: dict[str, _Known] = {}
        """What each manifest's file was found to say; whether it still says so is asked each time."""

    def path(self, name: str) -> Path:
        if name not in NAMES:
            raise ValueError(f"there is no checkpoint called {name!r}, only {', '.join(NAMES)}")
        return self.directory / f"{name}.json"

    def names(self) -> list[str]:
        """The checkpoints that have a manifest, good or not."""
        return [name for name in NAMES if self.path(name).exists()]

    def load(self, name: str) -> Checkpoint:
        """The checkpoint `name`; its manifest is proven now, its objects when they are read."""
        return Checkpoint(read_manifest(self.path(name)), self.objects)

    def read(self, name: str, read: Callable[[Checkpoint], Result]) -> tuple[Checkpoint, Result]:
        """What `read` makes of a checkpoint of a run that may be training: its objects stay until it is read. Where they
        cannot be kept, one replaced meanwhile is read again."""
        with self.objects.reader():
            for _ in range(ATTEMPTS):
                checkpoint = self.load(name)
                try:
                    return checkpoint, read(checkpoint)
                except DamagedStateError:
                    # Texts are compared, not manifests: a NaN among the metrics is not equal to itself.
                    if to_bytes(self.load(name).manifest) == to_bytes(checkpoint.manifest):
                        raise
        raise self._too_fast()

    def newest_good(self, own_data: bool = True) -> Recovery:
        """The newest resumable checkpoint of which every byte verifies; without `own_data` every other byte."""
        if own_data:
            return self.read_newest(
                lambda checkpoint: self._prove(checkpoint.manifest, to_bytes(checkpoint.manifest))
            )[0]
        return self.read_newest(lambda checkpoint: checkpoint.verify(own_data=False))[0]

    def read_newest(self, read: Callable[[Checkpoint], Result]) -> tuple[Recovery, Result | None]:
        """What `read` makes of the newest resumable checkpoint that it can read, of a run that may be training.

        Raises DamagedStateError when checkpoints exist and none of them can be read: starting over is the user's
        decision.
        """
        with self.objects.reader():
            for _ in range(ATTEMPTS):
                before = self.contents()
                refused: list[str] = []
                for checkpoint in self._resumable(before, refused):
                    try:
                        return Recovery(checkpoint, tuple(refused)), read(checkpoint)
                    except DamagedStateError as error:
                        # One that was replaced meanwhile is not damaged: look again.
                        if self.contents() != before:
                            break
                        manifest = checkpoint.manifest
                        refused.append(
                            f"checkpoint '{manifest.name}' at step {manifest.step} is refused: {error}"
                        )
                else:
                    if refused:
                        raise DamagedStateError(
                            f"no checkpoint in {self.directory} can be used. " + ". ".join(refused)
                        )
                    return Recovery(None, ()), None
        raise self._too_fast()

    def _too_fast(self) -> ResourceError:
        return ResourceError(
            f"The checkpoints in {self.directory} are replaced faster than they can be read, and the directory is read-only, so they "
            "cannot be pinned; try again when the run is not training, or copy it first."
        )

    def good(self) -> dict[str, Manifest]:
        """Manifests that verify, by name; their objects are not looked at."""
        return self._good(proven=False)

    def contents(self) -> dict[str, bytes]:
        """Texts of all manifests, by name."""
        found = {}
        for name in self.names():
            with suppress(FileNotFoundError):
                found[name] = read_plain(self.path(name), MANIFEST_LIMIT)
        return found

    def _resumable(self, contents: Mapping[str, bytes], refused: list[str]) -> list[Checkpoint]:
        """Those whose manifests verify, newest first; what is said of the others is added to `refused`."""
        candidates: list[Manifest] = []
        for name in RESUMABLE:
            if name in contents:
                try:
                    candidates.append(from_bytes(contents[name], self.path(name)))
                except DamagedStateError as error:
                    refused.append(f"checkpoint '{name}' is refused: {error}")
        newest_first = sorted(candidates, key=lambda candidate: -candidate.step)
        return [Checkpoint(manifest, self.objects) for manifest in newest_first]

    def save(self, new: NewCheckpoint, roles: Collection[str] = ()) -> Manifest:
        """Commit `new` as `latest`, and as `init`, `best` or `final` if `roles` say so; returns its `latest` manifest.

        A carried-over replay keeps its own `replay_step`, so that thinned-out replay saves do not throw the replay
        away. On one of SAVE_FAILURES everything committed before is still there.
        """
        self._make_directory()
        self._refuse_other_writers()
        existing = self._good()
        plan = retain({name: kept.step for name, kept in existing.items()}, new.step, roles)
        try:
            with self.objects.batch():
                stored = self._put_state(new)
                replay = self._put_replay(new, existing.values())
                replay_refs = {f"replay/{ref.hash}": ref for ref in replay.objects}
                groups, parity = self._put_parity(stored, replay_refs, existing)
        except Exception as error:
            self._collect_after(error)
            raise
        manifest = replace(
            _manifest("latest", new, stored | replay_refs | parity),
            replay=replay.manifest,
            replay_step=replay.step,
            parity=groups,
        )
        committed = self._commit(manifest, plan, existing)
        self.collect_garbage()
        return committed

    def save_first(self, new: NewCheckpoint) -> None:
        """Commit `new` as `init` alone, without a replay: it makes up for a first save that failed."""
        self._make_directory()
        with self.objects.batch():
            stored = self._put_state(new)
        self.commit([_manifest("init", new, stored)])

    def _make_directory(self) -> None:
        self._fence()
        check_kind(self.directory, directory=True)
        make_subdirectory(self.directory)

    def _put_state(self, new: NewCheckpoint) -> dict[str, Ref]:
        """The objects of the state and of the user's own data, by their logical names."""
        from eigen2.store.state import blobs, state_bytes

        ensure_room(self.objects.root, state_bytes(new.state) + MARGIN_BYTES)
        stored = {f"state/{name}": self.objects.put(chunks) for name, chunks in blobs(new.state)}
        if new.own_data is not None and (data := new.own_data(self.objects)) is not None:
            stored[OWN_DATA] = data
        return stored

    def adopt_identity(self, identity: Mapping[str, Any]) -> None:
        """Give the manifests of format 1, whose identity is a hash of words of their time, an identity of today."""
        for manifest in self._good(proven=False).values():
            if "config_hash" in manifest.identity:
                self._rewrite(replace(manifest, identity=dict(identity)))

    def adopt_own_data(self, ref: Ref) -> None:
        """Let the manifests that name a copy of the user's data name this one of the same data."""
        for manifest in self._good(proven=False).values():
            if manifest.objects.get(OWN_DATA, ref) != ref:
                self._rewrite(replace(manifest, objects={**manifest.objects, OWN_DATA: ref}))

    def clean(self) -> None:
        """Remove what a killed process left behind. Only the owner of the run's lock may call this."""
        remove_temporaries(self.directory)
        with self.objects.without_guests() as alone:
            if alone:
                self.objects.clean()
        self.collect_garbage()

    def collect_garbage(self) -> int:
        """Delete the objects that no manifest and no pin names; returns their number.

        A manifest that does not verify still protects every object that its text names: it may be repaired. The
        objects are listed before the pins are read, so one that was pinned and then put is never lost.
        """
        with self.objects.without_guests() as alone:
            garbage = self.garbage() if alone else []
            if garbage:
                self.objects.delete(*garbage)
        return len(garbage)

    def garbage(self) -> list[str]:
        """The objects that no manifest and no pin names. Of a run that is being trained this says nothing: it puts
        objects before it names them."""
        if not self.directory.is_dir():
            return []
        present = list(self.objects.list())
        # A rename that is visible but not durable could be undone by a power cut, and the old names come back.
        sync_directory(self.directory)
        good = self._good(proven=False)
        try:
            live = live_objects(good.values()) | set(self.pinned())
        except OSError:
            # Nobody knows what is pinned: everything stays until that can be read again.
            return []
        for name in set(self.names()) - set(good):
            live |= set(
                re.findall("[0-9a-f]{64}", read_plain(self.path(name), MANIFEST_LIMIT).decode("latin-1"))
            )
        return [name for name in present if name not in live]

    def _commit(self, manifest: Manifest, plan: Plan, existing: Mapping[str, Manifest]) -> Manifest:
        light = without_replay(manifest)
        new = [replace(existing["latest"], name="previous")] if plan.rotate else []
        new += [replace(manifest if name in RESUMABLE else light, name=name) for name in plan.write]
        return self.commit(new)[-1]

    def commit(self, manifests: Iterable[Manifest]) -> list[Manifest]:
        """Write manifests in this order, each by one rename; their objects must be durable. Returns what they say now."""
        there, written = set(self.names()), list[Manifest]()
        for manifest in manifests:
            there.add(manifest.name)
            # What an earlier save or a copy says stays as it is, as long as it is true.
            known = bool(manifest.beside) and there.issuperset(manifest.beside)
            beside = manifest.beside if known else tuple(name for name in NAMES if name in there)
            written.append(replace(manifest, beside=beside))
        # All texts are made before the first file is touched: one that has no text must change nothing.
        for name, text in [(manifest.name, to_bytes(manifest)) for manifest in written]:
            self._proven.pop(name, None)
            write_atomically(self.path(name), text, self._fence)
            self._proven[name] = text
        return written

    def _rewrite(self, manifest: Manifest) -> None:
        """Replace a manifest by one that names the same state; what is known of its objects is not lost."""
        text = to_bytes(manifest)
        # Compared as this version spells it: the file may be of an earlier format.
        known = self._proven.get(manifest.name) == self._read(manifest.name).text
        write_atomically(self.path(manifest.name), text, self._fence)
        if known:
            self._proven[manifest.name] = text

    def _refuse_other_writers(self) -> None:
        """Where locks do not hold (some network file systems), another trainer shows itself by its checkpoints: a good
        `latest` that is not the one this process wrote or read."""
        known = self._proven.get("latest")
        if known is None or not (path := self.path("latest")).exists():
            return
        with suppress(DamagedStateError):
            other = self._read("latest")
            # As this version spells it: one that an earlier version wrote reads otherwise.
            if other.text != known:
                raise RunMoved(
                    f"{path} is of step {other.manifest.step} and was not written by this process: another one works on the "
                    f"run. Nothing more is written; stop all but one, then `eigen2 train --resume {path.parents[1]}` "
                    "continues.",
                    path.parents[1],
                )

    def _put_parity(
        self, state: Mapping[str, Ref], replay: Mapping[str, Ref], existing: Mapping[str, Manifest]
    ) -> tuple[dict[str, tuple[str, ...]], dict[str, Ref]]:
        """Groups and parity objects of a save; none unless they are asked for."""
        if not self.parity:
            return {}, {}
        from eigen2.store.parity import PREFIX, put_parity

        before = max(existing.values(), key=lambda manifest: manifest.step, default=None)
        families = [{ref.hash: ref.size for ref in family.values()} for family in (state, replay)]
        groups, refs = put_parity(
            self.objects, families, {} if before is None else before.parity, self.parity
        )
        return groups, {f"{PREFIX}{ref.hash}": ref for ref in refs}

    def _put_replay(self, new: NewCheckpoint, existing: Iterable[Manifest]) -> "_StoredReplay":
        if new.replay is None:
            return _carried_over(existing, new.step)
        refs: dict[str, Ref] = {}

        def put(chunks: Sequence[Buffer]) -> str:
            ref = self.objects.put(chunks)
            refs[ref.hash] = ref
            return ref.hash

        def has(name: str) -> bool:
            if ref := self.objects.find(name):
                refs[name] = ref
            return ref is not None

        manifest = new.replay.write(put, has)
        return _StoredReplay(refs.values(), manifest, new.step)

    def _good(self, proven: bool = True) -> dict[str, Manifest]:
        """Manifests that verify, by name; with `proven`, only those whose objects verify as well."""
        good: dict[str, Manifest] = {}
        for name in self.names():
            try:
                known = self._read(name)
                if proven:
                    self._prove(known.manifest, known.text)
            except DamagedStateError:
                continue
            good[name] = known.manifest
        return good

    def _read(self, name: str) -> "_Known":
        """The manifest `name`, proven; a file that has not changed is not made sense of again."""
        path, known = self.path(name), self._known.get(name)
        content = read_content(path)
        if known is None or known.content != content:
            manifest = from_bytes(content, path)
            known = self._known[name] = _Known(content, manifest, to_bytes(manifest))
        return known

    def _prove(self, manifest: Manifest, text: bytes) -> None:
        if self._proven.get(manifest.name) != text:
            Checkpoint(manifest, self.objects).verify()
            self._proven[manifest.name] = text

    def _collect_after(self, error: Exception) -> None:
        """Give back the room that an abandoned save took."""
        try:
            self.collect_garbage()
        except OSError as failure:
            error.add_note(f"its objects could not be removed either: {failure!r}")


def _manifest(name: str, new: NewCheckpoint, objects: Mapping[str, Ref]) -> Manifest:
    return Manifest(
        name=name,
        step=new.step,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        objects=objects,
        metrics=dict(new.metrics),
        logs=dict(new.logs),
        identity=dict(new.identity),
        log_hashes=dict(new.log_hashes),
        sealed=new.sealed,
        inexact=new.inexact,
    )


def without_replay(manifest: Manifest) -> Manifest:
    """The checkpoint as one to look at, which names no replay, nor the parity of it."""
    kept = {n: ref for n, ref in manifest.objects.items() if not n.startswith(("replay/", "parity/"))}
    there = {ref.hash for ref in kept.values()}
    groups = {name: members for name, members in manifest.parity.items() if there.issuperset(members)}
    kept |= {n: manifest.objects[n] for n in (f"parity/{name}" for name in groups)}
    return replace(manifest, objects=kept, replay=None, replay_step=None, parity=groups)


@dataclass(frozen=True)
class _Known:
    """A manifest as it was read: what the file holds, what it means, and how this version spells that."""

    content: bytes
    manifest: Manifest
    text: bytes


@dataclass(frozen=True)
class _StoredReplay:
    objects: Iterable[Ref] = ()
    manifest: Mapping[str, Any] | None = None
    step: int | None = None


def _carried_over(manifests: Iterable[Manifest], step: int) -> _StoredReplay:
    """The newest replay that is not from the future of `step`."""
    usable = [kept for kept in manifests if kept.replay_step is not None and kept.replay_step <= step]
    if not usable:
        return _StoredReplay()
    newest = max(usable, key=lambda kept: kept.replay_step or 0)
    return _StoredReplay(newest.below("replay/").values(), newest.replay, newest.replay_step)
