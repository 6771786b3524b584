"""Pictures as data: what an algorithm or an evaluation wants a report to show, not how it is drawn.

A panel names a source - a log of the run (`metrics`, `lineage`) or a series of the evaluation - and columns of it. Panels
are stored with the run as plain JSON, so a report draws them without knowing who made them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

REFERENCES = ("random_return", "stand_still_return")
"""Facts of an evaluation of control: what doing nothing sensible earns."""


@dataclass(frozen=True)
class Panel:
    kind: ClassVar[str]

    title: str
    note: str = field(default="", kw_only=True)
    """A sentence under the picture."""

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class Lines(Panel):
    """Columns `y` over `x`; no `y` means every other column."""

    kind = "lines"

    y: tuple[str, ...] = ()
    source: str = "metrics"
    x: str = "step"
    unit: str = ""
    low: str = ""
    high: str = ""
    """Columns of a band around the first line."""
    growth: bool = False
    """The columns are log returns: their running sum is shown, as a change in per cent."""
    drawdown: bool = False
    """As `growth`, but below the highest value so far."""
    levels: tuple[str, ...] = ()
    """Facts of the newest evaluation that are drawn as lines across."""


@dataclass(frozen=True)
class Against(Panel):
    """`y` against `x`, a dot for every record that has both; the colour is its `step`."""

    kind = "against"

    x: str
    y: str
    source: str = "metrics"
    step: str = "step"


@dataclass(frozen=True)
class Spread(Panel):
    """How `y` is spread over the records of each `x`: lowest, quartiles, median, highest."""

    kind = "spread"

    y: str
    source: str = "lineage"
    x: str = "generation"
    unit: str = ""


@dataclass(frozen=True)
class Heat(Panel):
    """One row for each column but `x`, the colour is the value."""

    kind = "heat"

    source: str
    x: str = "date"
    unit: str = ""


@dataclass(frozen=True)
class Marks(Panel):
    """One column of `source` at a time, chosen by its name, with the events of another table marked on it.

    An event has an `x`, the column's name in `of`, a `side` (what it is marked as) and further columns in `told`, which
    are shown when it is pointed at.
    """

    kind = "marks"

    source: str
    events: str
    x: str = "date"
    of: str = "symbol"
    side: str = "side"
    told: tuple[str, ...] = ()
    unit: str = ""


@dataclass(frozen=True)
class Bars(Panel):
    """How many values of the columns `y` lie in each of some ranges."""

    kind = "bars"

    source: str
    y: tuple[str, ...]
    unit: str = ""


@dataclass(frozen=True)
class Newest(Panel):
    """The records with the highest `x` as a table, the largest `y` first."""

    kind = "newest"

    y: str
    columns: tuple[str, ...]
    source: str = "lineage"
    x: str = "generation"


@dataclass(frozen=True)
class Tree(Panel):
    """Where the best individual comes from: its ancestors in a log of births.

    A record has an `id`, the ids of its `parents`, the `x` at which it lived, an `operator` and a `score`.
    """

    kind = "tree"

    score: str
    source: str = "lineage"
    id: str = "agent"
    parents: str = "parents"
    x: str = "generation"
    operator: str = "operator"
    chosen: str = ""
    """Set in the records of the best; the one with the highest score where no record says so."""
