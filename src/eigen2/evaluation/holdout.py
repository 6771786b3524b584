"""How often the holdout has been used: a holdout is fresh once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class HoldoutUses:
    """Counted from the lines of `evaluations.jsonl`."""

    total: int
    """Every evaluation on the holdout, the present one included."""
    champions: int
    """Different champions evaluated on it, the present one included: each was one more chance of a lucky hit, while
    evaluating the same one again is not."""


def holdout_uses(records: Iterable[Mapping[str, object]], champion_fingerprint: str) -> HoldoutUses:
    """Uses including the present one by the champion named, given the facts of earlier evaluations."""
    earlier = [_champion(record) for record in records if record.get("split") == "holdout"]
    return HoldoutUses(total=len(earlier) + 1, champions=len({*earlier, champion_fingerprint}))


def _champion(record: Mapping[str, object]) -> str:
    """A champion's fingerprint; the first runs wrote it under `champion`, where its figures stand now."""
    return str(record.get("champion_fingerprint", record.get("champion")))
