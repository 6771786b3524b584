"""Saving and finding checkpoints, so that a kill or a power cut at any instant loses nothing committed.

A save stores objects first and makes them durable; then `latest` is copied to `previous`, then the new manifests
are written, `latest` last; only then is garbage collected. Each manifest is replaced by a rename, so at every
instant `latest` is a complete checkpoint: the old one until its rename, the new one from then on.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from eigen2.errors import DamagedStateError, ResourceError
from eigen2.store.disk import MARGIN_BYTES, ensure_room
from eigen2.store.durable import Buffer, make_directory, remove_temporaries, sync_directory, write_atomically
from eigen2.store.manifest import Manifest, read_manifest, to_bytes
from eigen2.store.objects import Objects, Ref
from eigen2.store.retention import NAMES, RESUMABLE, Plan, live_objects, retain
from eigen2.store.state import State, blobs, from_blobs, state_bytes

SAVE_FAILURES = (OSError, ResourceError)
"""What `save` raises when the disk is full or broken; the checkpoints committed before are untouched."""


class ReplaySnapshot(Protocol):
    """An immutable view of a replay; it may be read on another thread while training goes on."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """JSON-able; every blob the replay needs occurs in it as a string, by name."""

    def blobs(self, known: set[str]) -> Iterable[tuple[str, Buffer]]:
        """Name and content of the blobs that are not in `known`."""


@dataclass(frozen=True)
class Checkpoint:
    """A committed checkpoint, and where its objects are."""

    manifest: Manifest
    objects: Objects

    def state(self) -> dict[str, Any]:
        """The training state, every byte proven."""
        names = [name.removeprefix("state/") for name in self.manifest.objects if name.startswith("state/")]
        return from_blobs(names, lambda name: self._read(f"state/{name}"))

    def replay_blob(self, name: str) -> bytes:
        """One blob of the replay, under the replay's own name for it; to be given to its `restore`."""
        return self._read(f"replay/{name}")

    def verify(self) -> None:
        """Read every object; raises DamagedStateError for the first one that is missing or damaged."""
        for ref in self.manifest.objects.values():
            self.objects.check(ref.hash)

    def _read(self, name: str) -> bytes:
        if name not in self.manifest.objects:
            raise DamagedStateError(f"the checkpoint '{self.manifest.name}' names no object '{name}'")
        return self.objects.read(self.manifest.objects[name].hash)


@dataclass(frozen=True)
class Recovery:
    """The checkpoint to resume from (None: the run has none yet), and why newer ones were refused."""

    checkpoint: Checkpoint | None
    refused: tuple[str, ...]


class Checkpoints:
    """The checkpoints of one run directory. Saving needs the run's lock, looking does not.

    `pinned` gives the hashes of objects that must stay although no manifest names them (uploads under way).
    """

    def __init__(self, run_dir: Path, pinned: Callable[[], Collection[str]] = tuple) -> None:
        self.directory = run_dir / "checkpoints"
        self.objects = Objects(run_dir / "objects")
        self._pinned = pinned
        self._proven: dict[str, bytes] = {}
        """Texts of the manifests whose checkpoints this process has written or read completely."""

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

    def newest_good(self) -> Recovery:
        """The newest resumable checkpoint of which every byte verifies.

        Raises DamagedStateError when checkpoints exist and none of them is good: starting over is the user's
        decision.
        """
        candidates: list[Manifest] = []
        refused: list[str] = []
        for name in RESUMABLE:
            if self.path(name).exists():
                try:
                    candidates.append(read_manifest(self.path(name)))
                except DamagedStateError as error:
                    refused.append(f"checkpoint '{name}' is refused: {error}")
        for manifest in sorted(candidates, key=lambda candidate: -candidate.step):
            try:
                self._prove(manifest)
            except DamagedStateError as error:
                refused.append(f"checkpoint '{manifest.name}' at step {manifest.step} is refused: {error}")
            else:
                return Recovery(Checkpoint(manifest, self.objects), tuple(refused))
        if refused:
            raise DamagedStateError(f"no checkpoint in {self.directory} can be used. " + ". ".join(refused))
        return Recovery(None, ())

    def save(
        self,
        step: int,
        state: State,
        *,
        replay: ReplaySnapshot | None = None,
        first: bool = False,
        best: bool = False,
        final: bool = False,
        metrics: Mapping[str, float] | None = None,
        logs: Mapping[str, int] | None = None,
        config_hash: str = "",
        data_fingerprint: str = "",
    ) -> Manifest:
        """Commit a checkpoint and return its `latest` manifest.

        Without `replay`, the replay of the newest checkpoint is carried over with its own `replay_step`, so that
        thinned-out replay saves do not throw the replay away. On one of SAVE_FAILURES everything committed
        before is still there.
        """
        make_directory(self.directory)
        existing = self._good()
        try:
            ensure_room(self.objects.root, state_bytes(state) + MARGIN_BYTES)
            with self.objects.batch():
                stored = {f"state/{name}": self.objects.put(chunks) for name, chunks in blobs(state)}
                memory = self._put_replay(step, replay, existing)
        except Exception as error:
            self._collect_after(error)
            raise
        manifest = Manifest(
            name="latest",
            step=step,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            objects=stored | memory.objects,
            replay=memory.manifest,
            replay_step=memory.step,
            metrics=dict(metrics or {}),
            logs=dict(logs or {}),
            config_hash=config_hash,
            data_fingerprint=data_fingerprint,
        )
        steps = {name: kept.step for name, kept in existing.items()}
        self._commit(manifest, retain(steps, step, first=first, best=best, final=final), existing)
        self.collect_garbage()
        return manifest

    def clean(self) -> None:
        """Remove what a killed process left behind. Only the owner of the run's lock may call this."""
        remove_temporaries(self.directory)
        self.objects.clean()
        self.collect_garbage()

    def collect_garbage(self) -> int:
        """Delete the objects that no manifest and no pin names; returns their number.

        A manifest that does not verify still protects every object that its text names: it may be repaired.
        """
        if not self.directory.is_dir():
            return 0
        # A rename that is visible but not durable could be undone by a power cut, and the old names come back.
        sync_directory(self.directory)
        good = self._good(proven=False)
        live = live_objects(good.values()) | set(self._pinned())
        for name in set(self.names()) - set(good):
            live |= set(re.findall("[0-9a-f]{64}", self.path(name).read_text("latin-1")))
        garbage = [name for name in self.objects.list() if name not in live]
        for name in garbage:
            self.objects.delete(name)
        return len(garbage)

    def _commit(self, manifest: Manifest, plan: Plan, existing: Mapping[str, Manifest]) -> None:
        looked_at = {name: ref for name, ref in manifest.objects.items() if name.startswith("state/")}
        light = replace(manifest, objects=looked_at, replay=None, replay_step=None)
        new = [replace(existing["latest"], name="previous")] if plan.rotate else []
        new += [replace(manifest if name in RESUMABLE else light, name=name) for name in plan.write]
        # All texts are made before the first file is touched: one that has no text must change nothing.
        for name, text in [(kept.name, to_bytes(kept)) for kept in new]:
            self._proven.pop(name, None)
            write_atomically(self.path(name), text)
            self._proven[name] = text

    def _put_replay(
        self, step: int, replay: ReplaySnapshot | None, existing: Mapping[str, Manifest]
    ) -> "_StoredReplay":
        if replay is None:
            return _carried_over(existing.values(), step)
        known: dict[str, Ref] = {}
        for kept in existing.values():
            known |= {name: ref for name, ref in _replay_objects(kept).items() if self.objects.holds(ref)}
        bare = {name.removeprefix("replay/") for name in known}
        written = {f"replay/{name}": self.objects.put(data) for name, data in replay.blobs(bare)}
        manifest = replay.manifest
        needed = {f"replay/{text}" for text in _strings(manifest)}
        kept_blobs = {name: ref for name, ref in known.items() if name in needed}
        return _StoredReplay(kept_blobs | written, manifest, step)

    def _good(self, proven: bool = True) -> dict[str, Manifest]:
        """Manifests that verify, by name; with `proven`, only those whose objects verify as well."""
        good: dict[str, Manifest] = {}
        for name in self.names():
            try:
                manifest = read_manifest(self.path(name))
                if proven:
                    self._prove(manifest)
            except DamagedStateError:
                continue
            good[name] = manifest
        return good

    def _prove(self, manifest: Manifest) -> None:
        text = to_bytes(manifest)
        if self._proven.get(manifest.name) != text:
            Checkpoint(manifest, self.objects).verify()
            self._proven[manifest.name] = text

    def _collect_after(self, error: Exception) -> None:
        """Give back the room that an abandoned save took."""
        try:
            self.collect_garbage()
        except OSError as failure:
            error.add_note(f"its objects could not be removed either: {failure!r}")


@dataclass(frozen=True)
class _StoredReplay:
    objects: dict[str, Ref]
    manifest: Mapping[str, Any] | None
    step: int | None


def _carried_over(manifests: Iterable[Manifest], step: int) -> _StoredReplay:
    """The newest replay that is not from the future of `step`."""
    found = _StoredReplay({}, None, None)
    for kept in manifests:
        if (
            kept.replay_step is not None
            and (-1 if found.step is None else found.step) < kept.replay_step <= step
        ):
            found = _StoredReplay(_replay_objects(kept), kept.replay, kept.replay_step)
    return found


def _replay_objects(manifest: Manifest) -> dict[str, Ref]:
    return {name: ref for name, ref in manifest.objects.items() if name.startswith("replay/")}


def _strings(value: Any) -> set[str]:
    """Every string inside a JSON value, keys included."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, Mapping):
        return _strings([*value.keys(), *value.values()])
    if isinstance(value, (list, tuple)):
        return {text for item in value for text in _strings(item)}
    return set()
