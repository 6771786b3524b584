"""Which checkpoints are kept: a pure function, so that disk use is bounded and can be reasoned about.

`init` is the first state, `best` the best by evaluation, `latest` the newest, `previous` the one before it, and
`final` the end of the run. A resume uses `final`, `latest` or `previous`; `init` and `best` are for looking at
and therefore carry no replay.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from eigen2.store.manifest import Manifest

NAMES = ("init", "best", "previous", "latest", "final")
RESUMABLE = ("final", "latest", "previous")
ROLES = ("init", "best", "final")
"""What a new checkpoint may be besides `latest`."""


@dataclass(frozen=True)
class Plan:
    """What one save does to the manifests."""

    rotate: bool
    """First of all, `latest` becomes `previous`."""
    write: tuple[str, ...]
    """Names that the new checkpoint gets, in this order."""


def retain(existing: Mapping[str, int], step: int, roles: Collection[str] = ()) -> Plan:
    """The plan for a new checkpoint at `step`, where `existing` are the good manifests and their steps.

    `latest` is written last: if the save is cut short, the resumed run repeats the step and finds `best` again,
    whereas a `latest` that remembers a better score than the `best` beside it would never be put right.
    A `latest` of the same or a later step is replaced, not rotated: `previous` is always an earlier step.
    """
    if unknown := set(roles) - set(ROLES):
        raise ValueError(f"a checkpoint can be {', '.join(ROLES)}, not {sorted(unknown)}")
    names = [role for role in ROLES if role in roles]
    return Plan(rotate=existing.get("latest", step) < step, write=(*names, "latest"))


def live_objects(manifests: Iterable[Manifest]) -> set[str]:
    """Hashes of all objects that a manifest names; everything else is garbage."""
    return {ref.hash for manifest in manifests for ref in manifest.objects.values()}
