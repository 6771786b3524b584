"""How often the holdout has been opened: a holdout is fresh once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class HoldoutLooks:
    """Counted from the lines of `evaluations.jsonl`."""

    total: int
    """Every look, the present one included."""
    champions: int
    """Different champions that were looked at, the present one included: each was one more chance of a lucky hit,
    while looking at the same one again is not."""


def holdout_looks(evaluations: Iterable[Mapping[str, object]], champion: str) -> HoldoutLooks:
    """Looks including one now at `champion` (its fingerprint), given the earlier records {split, champion, ...}."""
    earlier = [str(record.get("champion")) for record in evaluations if record.get("split") == "holdout"]
    return HoldoutLooks(total=len(earlier) + 1, champions=len({*earlier, champion}))
