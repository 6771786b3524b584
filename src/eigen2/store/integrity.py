"""`verify`: does every byte of a run's stored state still match its hash?"""

from dataclasses import asdict, dataclass
from typing import Any

from eigen2.errors import DamagedStateError
from eigen2.store.checkpoints import Checkpoints
from eigen2.store.manifest import Manifest, from_bytes
from eigen2.store.retention import live_objects

ATTEMPTS = 5
"""A run that is training replaces its checkpoints while they are read; the check then starts again."""


@dataclass(frozen=True)
class Report:
    """What `verify` found. Orphans are garbage of a killed save: they cost room, not correctness."""

    manifests: tuple[str, ...]
    objects: int
    bytes: int
    damaged: tuple[str, ...]
    """One sentence for each manifest or object that does not match its hash."""
    missing: tuple[str, ...]
    """One sentence for each object that a manifest or an evaluation names and that is not there."""
    orphaned: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.damaged and not self.missing

    def as_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


def verify(checkpoints: Checkpoints) -> Report:
    """Check every manifest and every object of a run; changes nothing."""
    for _ in range(ATTEMPTS):
        before = checkpoints.contents()
        report = _check(checkpoints, before)
        if report.ok or checkpoints.contents() == before:
            break
    return report


def _check(checkpoints: Checkpoints, contents: dict[str, bytes]) -> Report:
    damaged: list[str] = []
    manifests: dict[str, Manifest] = {}
    for name, content in contents.items():
        try:
            manifests[name] = from_bytes(content, checkpoints.path(name))
        except DamagedStateError as error:
            damaged.append(str(error))
    objects, live = checkpoints.objects, live_objects(manifests.values()) | set(checkpoints.pinned())
    sizes: dict[str, int] = {}
    for name in objects.list():
        try:
            sizes[name] = objects.check(name)
        except DamagedStateError as error:
            if name in live or objects.path(name).exists():
                sizes[name] = 0
                damaged.append(str(error))
    missing = [
        f"checkpoint '{name}' needs {logical}, but {objects.path(ref.hash)} is missing"
        for name, manifest in manifests.items()
        for logical, ref in manifest.objects.items()
        if ref.hash not in sizes
    ]
    missing += [
        f"an evaluation needs {objects.path(name)}, which is missing"
        for name in checkpoints.pinned()
        if name not in sizes
    ]
    orphaned = [str(objects.path(name)) for name in sizes if name not in live]
    orphaned += [str(path) for path in objects.strangers()]
    return Report(
        tuple(manifests), len(sizes), sum(sizes.values()), tuple(damaged), tuple(missing), tuple(orphaned)
    )
