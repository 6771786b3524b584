"""What leaks: from inspections and censuses in the records, and from owners that declare their bytes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from eigen2.memory.census import GRAPHS
from eigen2.memory.words import size_words

PART = 0.3
"""Of the growth that something must account for to be named as its cause."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Cause:
    kind: str
    """`numpy arrays`, `torch tensors with a graph`, `environments of class X`, `objects of class X`, `owner X`."""
    phase: str | None = None
    first_seen: int | None = None
    """The step in which it was seen to appear."""
    holder: str | None = None
    """`Class.attribute` or `module.name` that keeps it."""
    owner: str | None = None
    """The declared owner whose bytes grow with it."""

    def words(self) -> str:
        seen = f", first seen in the {self.phase} phase of step {self.first_seen}" if self.first_seen else ""
        held = f", held by {self.holder}" if self.holder else ""
        owned = f", which {self.owner} declares" if self.owner and self.kind != f"owner {self.owner}" else ""
        return f"{self.kind}{seen}{held}{owned}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find_cause(
    records: Sequence[Record], slope: float, owner_slopes: Mapping[str, float], filling: Collection[str]
) -> Cause | None:
    """The best account of a growth of `slope` bytes per step."""
    growing = {
        name: value for name, value in owner_slopes.items() if name not in filling and value >= PART * slope
    }
    owner = max(growing, key=growing.__getitem__, default=None)
    inspections = [record["inspection"] for record in records if "inspection" in record]
    found = _inspected(inspections, slope, owner)
    if found is not None:
        return found
    if owner is not None:
        return Cause(f"owner {owner}", owner=owner)
    return _counted(records, slope)


def _inspected(inspections: Sequence[Record], slope: float, owner: str | None) -> Cause | None:
    for inspection in reversed(inspections):
        step, types, survivors = inspection["step"], inspection["types"], inspection["survivors"]
        for entry in types:
            if entry["environment"]:
                name = entry["type"].rpartition(".")[2]
                kind = f"environments of class {name} ({entry['per_step']:g} per step)"
                return Cause(kind, entry["phase"], step, entry["holder"], owner)
        graphs = [s for s in survivors if s["kind"] == GRAPHS]
        large = [s for s in survivors if s["bytes"] >= PART * slope]
        # A graph may hold more than can be counted: activations live in C++.
        for survivor in (*large, *graphs):
            return Cause(survivor["kind"], survivor["phase"], step, survivor["holder"], owner)
        for entry in types:
            kind = f"objects of type {entry['type']} ({entry['per_step']:g} per step)"
            return Cause(kind, entry["phase"], step, entry["holder"], owner)
    return None


def _counted(records: Sequence[Record], slope: float) -> Cause | None:
    """From the first and the last census of the last process."""
    session = records[-1].get("session")
    counted = [r for r in records if "census" in r and r.get("session") == session]
    if len(counted) < 2:
        return None
    first, last = counted[0], counted[-1]
    steps = max(1, last["step"] - first["step"])
    before, after = first["census"]["kinds"], last["census"]["kinds"]
    zero = {"count": 0, "bytes": 0}
    grown = {kind: (now["bytes"] - before.get(kind, zero)["bytes"]) / steps for kind, now in after.items()}
    kind = max(grown, key=grown.__getitem__, default=None)
    if kind is not None and grown[kind] >= PART * slope:
        return Cause(f"{kind} ({size_words(grown[kind])} per step)")
    graphs = (after.get(GRAPHS, zero)["count"] - before.get(GRAPHS, zero)["count"]) / steps
    if graphs >= 0.5:
        return Cause(GRAPHS)
    types = {
        name: (count - first["census"]["types"].get(name, count)) / steps
        for name, count in last["census"]["types"].items()
    }
    name = max(types, key=types.__getitem__, default=None)
    return Cause(f"objects of type {name}") if name is not None and types[name] >= 0.5 else None
