"""Is there a leak? A sentence from the records of a run, while it trains or long after.

Each process has its own level, so growth is measured inside sessions only; a resume is no growth. Memory that buffers
declare as they fill is explained. Records of earlier versions have RSS and owners: they get a slope and no cause.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from eigen2.memory.causes import Cause, find_cause
from eigen2.memory.growth import ENOUGH, Growth, Part, judge, part, warm_up
from eigen2.memory.slopes import slope
from eigen2.memory.words import size_words

PAUSE = 0.5
"""Seconds between records, beyond what the step took, that only a new process explains."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    leak: bool | None
    """None while there are not enough steps."""
    sentence: str
    growth: Growth | None
    owners: dict[str, int]
    """Bytes by owner at the end."""
    owner_slopes: dict[str, float]
    phases: dict[str, float]
    """Bytes that each phase adds per step."""
    cause: Cause | None
    profiler_share: float | None
    """Part of the run's time that was spent on looking at memory."""

    def to_json(self) -> dict[str, Any]:
        growth, cause = self.growth, self.cause
        return {
            "leak": self.leak,
            "verdict": self.sentence,
            "slope_bytes_per_step": None if growth is None else growth.slope.value,
            "interval": None if growth is None else [growth.slope.low, growth.slope.high],
            "steps": 0 if growth is None else growth.steps,
            "owners": self.owners,
            "owner_slopes": self.owner_slopes,
            "phases": self.phases,
            "cause": None if cause is None else cause.to_json(),
            "profiler_share": self.profiler_share,
        }


def assess(records: Sequence[Record]) -> Verdict:
    parts = sessions(records)
    unexplained, filled = [_levels(one)[0] for one in parts], [_levels(one)[1] for one in parts]
    growth = judge(unexplained, filled)
    owners = _owners(records[-1]) if records else {}
    share = _share(parts[-1]) if parts else None
    if growth is None:
        longest = max((len(one) for one in parts), default=0)
        needed = next(n for n in range(1, 100) if n - warm_up(n) >= ENOUGH)
        sentence = f"not enough steps yet: {longest} in one process, {needed} are needed"
        return Verdict(None, sentence, None, owners, {}, {}, None, share)
    judged = [_judged(one) for one in parts if len(one) - warm_up(len(one)) >= ENOUGH]
    slopes = _owner_slopes(judged)
    phases = _phase_growth(judged)
    cause = find_cause(records, growth.slope.value, slopes, _filling(parts[-1])) if growth.leak else None
    sentence = (
        _leak(growth, phases, cause)
        if growth.leak
        else _no_leak(growth, {name: slopes[name] for name in _filling(parts[-1]) if name in slopes})
    )
    return Verdict(growth.leak, sentence, growth, owners, slopes, phases, cause, share)


def sessions(records: Sequence[Record]) -> list[list[Record]]:
    """Records of each process, in order."""
    found: list[list[Record]] = [[records[0]]] if records else []
    for before, after in pairwise(records):
        if _same_process(before, after):
            found[-1].append(after)
        else:
            found.append([after])
    return found


def _same_process(before: Record, after: Record) -> bool:
    if "session" in before or "session" in after:
        return bool(before.get("session") == after.get("session"))
    return float(after["time"] - before["time"] - after["seconds"]) < PAUSE


def _judged(records: list[Record]) -> list[Record]:
    return records[warm_up(len(records)) :]


def _owners(record: Record) -> dict[str, int]:
    if "owners" in record:
        return dict(record["owners"])
    return {"replay": record["replay_bytes"]} if "replay_bytes" in record else {}


def _filling(records: list[Record]) -> set[str]:
    """Names that may grow; in records that do not say, all of them."""
    for record in records:
        if "filling" in record:
            return set(record["filling"])
    return set(_owners(records[-1]))


def _levels(records: list[Record]) -> tuple[Part, Part]:
    names = _filling(records)
    steps = [float(record["step"]) for record in records]
    filled = [float(sum(size for name, size in _owners(r).items() if name in names)) for r in records]
    own = [float(record.get("own_bytes", record["rss_bytes"])) for record in records]
    return part(steps, [a - b for a, b in zip(own, filled, strict=True)]), part(steps, filled)


def _owner_slopes(parts: list[list[Record]]) -> dict[str, float]:
    names = {name for one in parts for name in _owners(one[-1])}
    found = {}
    for name in sorted(names):
        levels = [
            part([float(r["step"]) for r in one], [float(_owners(r).get(name, 0)) for r in one])
            for one in parts
        ]
        steepness = slope(levels)
        found[name] = 0.0 if steepness is None else steepness.value
    return found


def _phase_growth(parts: list[list[Record]]) -> dict[str, float]:
    """Means, because what phases take from each other's free memory adds up to the whole."""
    records = [record for one in parts for record in one if record.get("phases")]
    total: dict[str, float] = {}
    for record in records:
        for name, reading in record["phases"].items():
            total[name] = total.get(name, 0.0) + float(reading["growth_bytes"])
    return {name: value / len(records) for name, value in total.items()}


def _share(records: list[Record]) -> float | None:
    last = records[-1]
    if not last.get("elapsed"):
        return None
    return float(last["profiler_seconds"]) / float(last["elapsed"])


def _leak(growth: Growth, phases: dict[str, float], cause: Cause | None) -> str:
    phase = (
        cause.phase
        if cause is not None and cause.phase
        else max(phases, key=phases.__getitem__, default=None)
    )
    what = "no Python object that could be found holds it" if cause is None else cause.words()
    where = "memory" if phase is None else f"{phase} phase"
    return f"{where} grows {size_words(growth.slope.value)} per step; {what}"


def _no_leak(growth: Growth, slopes: dict[str, float]) -> str:
    found = growth.slope
    sentence = (
        f"no leak: {size_words(found.value)} per step (95 % interval {size_words(found.low)} to "
        f"{size_words(found.high)}) over {growth.steps} steps after warm-up"
    )
    filling = [name for name, value in slopes.items() if value >= 1000]
    if not filling:
        return sentence
    return f"{sentence}; {', '.join(filling)} grew by {size_words(sum(slopes[n] for n in filling))} per step, as declared"
