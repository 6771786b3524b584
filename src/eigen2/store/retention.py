"""Which checkpoints are kept: a pure function, so that disk use is bounded and can be reasoned about.

`init` is the first state, `best` the best by evaluation, `latest` the newest, `previous` the one before it, and
`final` the end of the run. A resume uses `final`, `latest` or `previous`; `init` and `best` are for looking at
and therefore carry no replay.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eigen2.store.manifest import Manifest

NAMES = ("init", "best", "previous", "latest", "final")
RESUMABLE = ("final", "latest", "previous")


@dataclass(frozen=True)
class Plan:
    """What one save does to the manifests."""

    rotate: bool
    """First of all, `latest` becomes `previous`."""
    write: tuple[str, ...]
    """Names that the new checkpoint gets, in this order."""


def retain(
    existing: Mapping[str, int], step: int, *, first: bool = False, best: bool = False, final: bool = False
) -> Plan:
    """The plan for a new checkpoint at `step`, where `existing` are the good manifests and their steps.

    `latest` is written last: if the save is cut short, the resumed run repeats the step and finds `best` again,
    whereas a `latest` that remembers a better score than the `best` beside it would never be put right.
    A `latest` of the same or a later step is replaced, not rotated: `previous` is always an earlier step.
    """
    names = [name for name, wanted in (("init", first), ("best", best), ("final", final)) if wanted]
    return Plan(rotate=existing.get("latest", step) < step, write=(*names, "latest"))


def outcome(existing: Mapping[str, int], step: int, plan: Plan) -> dict[str, int]:
    """The manifests and their steps once `plan` is carried out."""
    after = dict(existing)
    if plan.rotate:
        after["previous"] = after["latest"]
    return after | dict.fromkeys(plan.write, step)


def live_objects(manifests: Iterable[Manifest]) -> set[str]:
    """Hashes of all objects that a manifest names; everything else is garbage."""
    return {ref.hash for manifest in manifests for ref in manifest.objects.values()}
