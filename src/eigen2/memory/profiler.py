"""Watches the memory of a process that works in steps and phases.

Every step, and every phase of steps that are not very short, gets a reading of the kernel's counters, which costs
microseconds. What costs more - bytes by owner, USS and limits, a census of live objects - is spaced so that all of it
together stays below one per cent of the time. Only a process whose memory really grows is looked at more closely
(`inspection`).
"""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from eigen2.memory import census
from eigen2.memory.budget import Budget
from eigen2.memory.growth import judge, part
from eigen2.memory.holders import holder
from eigen2.memory.inspection import Inspection
from eigen2.memory.readings import Meter, Reading
from eigen2.memory.words import size_words

SEVERE = 32_000_000
"""Unexplained growth, in bytes, that is worth more of the run's time."""
TYPES = 15
"""Types of objects in a record: the most frequent, and those that grew most."""


class Profiler:
    """Once begun: `phase` as the work goes on, `closed` after work between steps, `record` after each step.

    `owners` gives bytes by name; those named in `filling` may grow. `outside` names the package that runs the steps.
    """

    def __init__(
        self, owners: Callable[[], dict[str, int]], filling: Collection[str] = (), outside: str = "",
        close_look: bool = True,
    ) -> None:  # fmt: skip
        self._owners, self._filling, self._outside, self._close_look = (
            owners,
            frozenset(filling),
            outside,
            close_look,
        )
        self.session = secrets.token_hex(4)
        self._meter = Meter()
        self.seconds = 0.0
        """CPU time that looking has taken."""
        self._reading = Budget(0.002, 0.0001, allowance=0.005)
        self._owning = Budget(0.0015, 0.0002, allowance=0.005)
        self._detailing = Budget(0.001, 0.02)
        self._counting = Budget(0.002, 0.3)
        self._by_phase = True
        """Whether the phases of this step are read; where steps take milliseconds, only some are."""
        self._phase: str | None = None
        self._complete = False
        self._phases: dict[str, dict[str, float]] = {}
        self._border = time.monotonic()
        """When the phase before ended."""
        self._held = owners()
        self._first_types: Counter[type] | None = None
        self._big_holders: dict[int, str | None] = {}
        self._inspection: Inspection | None = None
        self._inspections = Budget(0.02, 0.0, allowance=0.001)
        self._step = 0
        self._steps: list[float] = []
        self._levels: list[float] = []
        self._fills: list[float] = []
        self._next_judgement = 12
        reading = self._meter.read()
        self._began = (reading.own, dict(self._held))
        self._level = reading.own - self._filled
        with self._detailing.paying():
            details = self._meter.details()
        self._first: dict[str, Any] = {
            "filling": sorted(self._filling),
            "baseline": {
                "rss_bytes": reading.rss,
                "vms_bytes": reading.vms,
                "own_bytes": reading.own,
                **details,
            },
        }

    def phase(self, phase: str, done: int, total: int) -> None:
        """Called as a step proceeds. Work that reports a phase with done = 0 before it begins is told apart exactly;
        otherwise a phase ends when it is complete."""
        if phase != self._phase:
            if self._phase is not None and (done == 0 or not self._complete):
                self.closed(self._phase)
            self._phase, self._complete = phase, False
        if done >= total:
            self.closed(phase)
            self._complete = True

    def closed(self, phase: str) -> None:
        """A phase has ended here: what has grown since the one before is its own."""
        if not self._by_phase:
            return
        with self._reading.paying():
            self._close(phase)
        self.seconds += self._reading.last

    def _close(self, phase: str) -> Reading:
        reading = self._meter.read()
        self._look_at_owners()
        level = reading.own - self._filled
        now = time.monotonic()
        entry = self._phases.setdefault(phase, {"growth_bytes": 0, "seconds": 0.0})
        entry["growth_bytes"] += level - self._level
        entry["seconds"] = round(entry["seconds"] + now - self._border, 4)
        self._border = now
        entry |= {"rss_bytes": reading.rss, "vms_bytes": reading.vms}
        self._level = level
        if self._inspection is not None and self._inspection.step == self._step + 1:
            with self._inspections.paying():
                self._inspection.border(phase)
        return reading

    def record(self, step: int, everything: bool = False) -> dict[str, Any]:
        """After a step: what memory.jsonl says about it. `everything`: whatever it costs."""
        began = time.thread_time()
        found = self._found(step, everything)
        self.seconds += time.thread_time() - began
        return found

    def _found(self, step: int, everything: bool) -> dict[str, Any]:
        reading = self._close(self._phase or "step")
        self._phase = None
        found: dict[str, Any] = {
            "session": self.session, "rss_bytes": reading.rss, "own_bytes": reading.own, "vms_bytes": reading.vms,
            "owners": dict(self._held), "phases": self._phases if self._by_phase else {},
            "profiler_seconds": round(self.seconds, 6), "elapsed": round(self._meter.age, 6),
            **self._first,
        }  # fmt: skip
        self._phases, self._first, self._step = {}, {}, step
        if everything or self._detailing.allows:
            with self._detailing.paying():
                found["details"] = self._meter.details()
        if everything or self._counting.allows:
            with self._counting.paying():
                found["census"] = self._census()
        self._steps.append(step)
        self._levels.append(self._level)
        self._fills.append(self._filled)
        if self._inspection is not None and step > self._inspection.step:
            with self._inspections.paying():
                found["inspection"] = self._inspection.result(step)
            self._inspection = None
        elif self._inspection is None and self._close_look:
            self._suspect()
        self._by_phase = self._reading.allows or self._inspection is not None
        return found

    def grown(self, most: int) -> str:
        """What has grown most since the beginning, for people; `most` is what this process had at its peak."""
        own, held = self._began
        self._held, now = self._owners(), self._meter.read().own
        grown = {name: size - held.get(name, 0) for name, size in self._held.items()}
        owner = max(grown, key=grown.__getitem__, default="")
        passing, undeclared = most - now, now - own - sum(grown.values())
        if passing > max(undeclared, grown.get(owner, 0)):
            return f"the {self._phase or 'last'} phase took {size_words(passing)} beside what is held between steps"
        if undeclared > grown.get(owner, 0):
            return f"memory that no owner declares grew by {size_words(undeclared)}{self._largest()}"
        return f"{owner} grew by {size_words(grown.get(owner, 0))} to {size_words(self._held.get(owner, 0))}"

    def _largest(self) -> str:
        found = census.take(self._outside)
        kinds = found.kinds()
        if not kinds:
            return ""
        kind = max(kinds, key=lambda name: kinds[name]["bytes"])
        largest = sorted((b for b in found.blocks if b.kind == kind), key=lambda b: -b.bytes)[:3]
        named = {holder(block.keeper, block.inside) for block in largest} - {None}
        by = f", held by {' and '.join(sorted(map(str, named)))}" if named else ""
        return f"; there are {size_words(kinds[kind]['bytes'])} of {kind}{by}"

    def close(self) -> None:
        self._meter.close()

    @property
    def _filled(self) -> int:
        return sum(size for name, size in self._held.items() if name in self._filling)

    def _look_at_owners(self) -> None:
        if self._owning.allows:
            with self._owning.paying():
                self._held = self._owners()

    def _suspect(self) -> None:
        """Begin an inspection of the next step when memory has grown much and steadily."""
        if len(self._steps) < self._next_judgement or not self._inspections.allows:
            return
        self._next_judgement = len(self._steps) * 5 // 4 + 1
        if self._levels[-1] - self._levels[len(self._levels) // 3] < SEVERE / 2:
            return
        growth = judge([part(self._steps, self._levels)], [part(self._steps, self._fills)])
        if growth is not None and growth.leak and growth.slope.low * growth.steps >= SEVERE:
            with self._inspections.paying():
                self._inspection = Inspection(self._step + 1, self._outside)

    def _census(self) -> dict[str, Any]:
        found = census.take(self._outside)
        first = self._first_types = self._first_types or found.types
        grown = Counter({kind: count - first[kind] for kind, count in found.types.items()})
        listed = {kind for kind, _ in (*found.types.most_common(TYPES), *grown.most_common(TYPES))}
        big = found.big()
        self._big_holders = {
            block.start: self._big_holders.get(block.start) or holder(block.keeper, block.inside)
            for block in big
        }
        return {
            "kinds": found.kinds(),
            "types": {census.type_name(kind): found.types[kind] for kind in listed},
            "big": [{**census.described(block), "holder": self._big_holders[block.start]} for block in big],
        }
