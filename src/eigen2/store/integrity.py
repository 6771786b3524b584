"""Does every byte of a run's stored state still match its hash? `survey` looks, `verify` reports."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from eigen2.errors import DamagedStateError
from eigen2.store.checkpoints import Checkpoints
from eigen2.store.manifest import Manifest, from_bytes
from eigen2.store.retention import NAMES, RESUMABLE, live_objects

ATTEMPTS = 5
"""A run that is training replaces its checkpoints while they are read; the check then starts again."""
Show = Callable[[int, int], None]
"""Takes bytes done and bytes in all."""


def unseen(done: int, total: int) -> None:
    """For a check that nobody watches."""


@dataclass(frozen=True)
class Survey:
    """What is there of the checkpoints and objects of a run, and what is wrong with it."""

    manifests: Mapping[str, Manifest]
    """Those that verify."""
    refused: Mapping[str, str]
    """A sentence for each manifest that does not."""
    absent: tuple[str, ...]
    """Checkpoints that others were committed beside, and whose manifests are not there."""
    sizes: Mapping[str, int]
    """Of all objects that are there, good or not."""
    damaged: Mapping[str, str]
    """A sentence for each object that does not match its hash."""
    missing: Mapping[str, str]
    """A sentence for each object that a manifest or an evaluation names and that is not there."""
    unread: Mapping[str, int]
    """Sizes of the objects whose content was not looked at."""
    pinned: frozenset[str]
    """Objects that stay although no manifest names them."""

    @property
    def bad(self) -> set[str]:
        """Objects that are needed and cannot be used."""
        return (self.damaged.keys() | self.missing.keys()) & (
            live_objects(self.manifests.values()) | self.pinned
        )


@dataclass(frozen=True)
class Report:
    """What `verify` found. Orphans are garbage of a killed save: they cost room, not correctness."""

    manifests: tuple[str, ...]
    objects: int
    bytes: int
    damaged: tuple[str, ...]
    """One sentence for each file that does not match its hash."""
    missing: tuple[str, ...]
    """One sentence for each file that the run names and that is not there."""
    orphaned: tuple[str, ...]
    unread: int = 0
    """Objects of which only presence and length were checked: `verify --sample`."""
    unread_bytes: int = 0
    unproven: tuple[str, ...] = ()
    """One sentence for each file that an earlier version wrote without a checksum."""
    inexact: tuple[str, ...] = ()
    """One sentence for each repair after which the run is no longer what an undamaged one would be."""

    @property
    def ok(self) -> bool:
        return not self.damaged and not self.missing

    def as_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


def verify(checkpoints: Checkpoints, sample: float = 1.0, show: Show = unseen) -> Report:
    """Check every manifest and every object of a run; changes nothing. With `sample`, only that share of the objects
    is read, chosen anew each time."""
    return reported(checkpoints, steady_survey(checkpoints, sample, show))


def steady_survey(checkpoints: Checkpoints, sample: float = 1.0, show: Show = unseen) -> Survey:
    """A survey of a run that may be training."""
    with checkpoints.objects.reader():
        for _ in range(ATTEMPTS):
            before = checkpoints.contents()
            found = survey(checkpoints, before, sample, show)
            if not (found.refused or found.absent or found.bad) or checkpoints.contents() == before:
                break
    return found


def reported(checkpoints: Checkpoints, found: Survey) -> Report:
    objects, live = checkpoints.objects, live_objects(found.manifests.values()) | found.pinned
    orphaned = [str(objects.path(name)) for name in found.sizes if name not in live]
    orphaned += [str(path) for path in objects.strangers()]
    resumable = [manifest for name, manifest in found.manifests.items() if name in RESUMABLE]
    newest = max(resumable, key=lambda manifest: manifest.step, default=None)
    left = (
        "nothing here can be resumed"
        if newest is None
        else f"a resume continues from '{newest.name}' of step {newest.step}"
    )
    absent = [
        f"{checkpoints.path(name)} is missing: the run had a checkpoint '{name}', which was lost or never copied; {left}, "
        "`eigen2 repair` fetches it where a copy has it"
        for name in found.absent
    ]
    return Report(
        manifests=tuple(found.manifests),
        objects=len(found.sizes),
        bytes=sum(size for name, size in found.sizes.items() if name not in found.damaged),
        damaged=(*found.refused.values(), *found.damaged.values()),
        missing=(*absent, *found.missing.values()),
        orphaned=tuple(orphaned),
        unread=len(found.unread),
        unread_bytes=sum(found.unread.values()),
        inexact=() if newest is None else newest.inexact,
    )


def survey(
    checkpoints: Checkpoints, contents: Mapping[str, bytes], sample: float = 1.0, show: Show = unseen
) -> Survey:
    """What is there, given the texts of the manifests."""
    refused: dict[str, str] = {}
    manifests: dict[str, Manifest] = {}
    for name, content in contents.items():
        try:
            manifests[name] = from_bytes(content, checkpoints.path(name))
        except DamagedStateError as error:
            refused[name] = str(error)
    beside = {name for manifest in manifests.values() for name in manifest.beside}
    pinned = frozenset(checkpoints.pinned())
    sizes, damaged, unread = _objects(checkpoints, manifests, sample, show)
    path = checkpoints.objects.path
    missing: dict[str, str] = {
        name: f"{path(name)} is missing; an evaluation or an unfinished upload needs it"
        for name in pinned
        if name not in sizes
    }
    for name, manifest in manifests.items():
        for logical, ref in manifest.objects.items():
            if ref.hash not in sizes:
                missing[ref.hash] = f"checkpoint '{name}' needs {logical}, but {path(ref.hash)} is missing"
    absent = tuple(name for name in NAMES if name in beside and name not in contents)
    return Survey(manifests, refused, absent, sizes, damaged, missing, unread, pinned)


def _objects(
    checkpoints: Checkpoints, manifests: Mapping[str, Manifest], sample: float, show: Show
) -> tuple[dict[str, int], dict[str, str], dict[str, int]]:
    """Sizes of all objects, what is said of the damaged ones, and sizes of those that were not read."""
    objects = checkpoints.objects
    named = {ref.hash: ref.size for manifest in manifests.values() for ref in manifest.objects.values()}
    present = {name: objects.size(name) for name in objects.list()}
    chosen = _chosen(list(present), sample)
    sizes: dict[str, int] = {}
    damaged: dict[str, str] = {}
    unread: dict[str, int] = {}
    total, done = sum(present[name] for name in chosen), 0
    for name, length in present.items():
        # Without a manifest nobody knows how long it should be, and it is read.
        if name not in chosen and named.get(name) == length:
            sizes[name] = unread[name] = length
            continue
        try:
            sizes[name] = objects.check(name, named.get(name))
        except DamagedStateError as error:
            # One that was deleted meanwhile is missing, if anybody needs it.
            if objects.path(name).exists():
                sizes[name] = length
                damaged[name] = str(error)
        done += length
        show(done, total)
    return sizes, damaged, unread


def _chosen(names: list[str], share: float) -> set[str]:
    if share >= 1.0:
        return set(names)
    shuffled = sorted(names, key=lambda name: secrets.randbits(64))
    return set(shuffled[: max(1, round(share * len(names)))])
