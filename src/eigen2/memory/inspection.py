"""One step under the microscope: what each phase made that outlives the step after it.

A census at every border between phases costs too much to be routine; it is taken when memory seems to leak. Memory
that was new in a phase, and whose object still lives when the next step has ended, is what leaks; that the phase also
made and dropped other things, or that the allocator gave it used memory, does not matter.
"""

import gc
import weakref
from collections import Counter
from dataclasses import dataclass
from typing import Any

from eigen2.memory import census
from eigen2.memory.census import GRAPHS, Block, Census
from eigen2.memory.holders import graph_bytes, holder

LISTED = 8
TRIED = 5
"""Objects of which a holder is looked for."""
_OWN = ("collections.Counter", "weakref.ReferenceType", "torch.storage.UntypedStorage")
"""Types that a census itself makes, beside those of this package."""


@dataclass(frozen=True)
class Newborn:
    phase: str
    block: tuple[str, int, int]
    """Kind, address and bytes."""
    alive: "weakref.ref[Any] | None"


class Inspection:
    def __init__(self, step: int, outside: str) -> None:
        self.step, self._outside = step, outside
        found = census.take(outside)
        self._known = {block.start for block in found.blocks}
        self._before = self._types = found.types
        self._newborn: dict[int, Newborn] = {}
        self._made: dict[str, Counter[type]] = {}

    def border(self, phase: str) -> None:
        """A phase has ended."""
        found = census.take(self._outside)
        for block in found.blocks:
            if block.start not in self._known:
                self._newborn[block.start] = _newborn(phase, block)
        self._known = {block.start for block in found.blocks}
        made = self._made.setdefault(phase, Counter())
        made.update({kind: found.types[kind] - self._types[kind] for kind in found.types})
        self._types = found.types

    def result(self, step: int) -> dict[str, Any]:
        """Called when at least one more step has ended: what is left, by phase and kind, the largest first."""
        found = census.take(self._outside)
        alive: dict[tuple[str, str], list[Block]] = {}
        for block in found.blocks:
            born = self._newborn.get(block.start)
            if born is not None and _is_same(born, block):
                alive.setdefault((born.phase, block.kind), []).append(block)
        survivors = [_described(phase, kind, blocks) for (phase, kind), blocks in alive.items()]
        survivors.sort(key=lambda entry: -int(entry["bytes"]))
        return {
            "step": self.step,
            "survivors": survivors[:LISTED],
            "types": self._grown(found, max(1, step - self.step + 1)),
        }

    def _grown(self, found: Census, steps: int) -> list[dict[str, Any]]:
        """Types of which every step leaves more."""
        grown: dict[type, tuple[str, float]] = {}
        for kind, count in found.types.items():
            per_step = (count - self._before[kind]) / steps
            phase = max(self._made, key=lambda phase: self._made[phase][kind], default="")
            own = census.type_name(kind).startswith((f"{__package__}.", *_OWN))
            if per_step >= 1 and not own and self._made[phase][kind] >= 1:
                grown[kind] = phase, per_step
        ranked = sorted(grown, key=lambda kind: (not census.is_environment(kind), -grown[kind][1]))[:LISTED]
        entries = [
            {
                "phase": grown[kind][0],
                "type": census.type_name(kind),
                "per_step": round(grown[kind][1], 2),
                "environment": census.is_environment(kind),
                "holder": None,
            }
            for kind in ranked
        ]
        # Of lists and dicts the newest may be anybody's.
        if entries and ranked[0].__module__ != "builtins":
            newest = next(thing for thing in reversed(gc.get_objects()) if type(thing) is ranked[0])
            entries[0]["holder"] = holder(newest)
        return entries


def _newborn(phase: str, block: Block) -> Newborn:
    root = census.root_of(block.keeper)
    weak = None if isinstance(root, bytes | bytearray) else weakref.ref(root)
    return Newborn(phase, (block.kind, block.start, block.bytes), weak)


def _is_same(born: Newborn, block: Block) -> bool:
    if born.alive is None:
        return born.block == (block.kind, block.start, block.bytes)
    return born.alive() is not None


def _described(phase: str, kind: str, blocks: list[Block]) -> dict[str, Any]:
    largest = max(blocks, key=lambda block: block.bytes)
    size = sum(block.bytes for block in blocks)
    if kind == GRAPHS:
        size += graph_bytes(block.keeper for block in blocks[:TRIED])
    # Intermediate results are kept by the graph alone and have no holder in Python.
    tried = [largest, *blocks[:TRIED]]
    name = next((found for block in tried if (found := holder(block.keeper, block.inside))), None)
    return {"phase": phase, "kind": kind, "count": len(blocks), "bytes": size, "holder": name}
