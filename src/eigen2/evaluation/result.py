"""What every evaluation comes to, whatever was evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from rich.console import RenderableType

    from eigen2.evaluation.panels import Panel


@dataclass(frozen=True)
class Evaluation:
    """Stored with the run, so that a report never computes anything again."""

    facts: dict[str, Any]
    """JSON: numbers, strings, lists, dicts and None; no NaN, no infinity."""
    shown: RenderableType
    """The facts for a person at a terminal."""
    series: Mapping[str, Mapping[str, npt.NDArray[np.generic]]] = field(default_factory=dict)
    """Tables by name, each a dict of columns of one length."""
    panels: tuple[Panel, ...] = ()
    """What a report draws of the series."""


class HoldoutLedger(Protocol):
    """Where uses of held-out data are written down, whoever makes them: it outlives every run."""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        ...

    def record(self, use: Mapping[str, Any], holdout: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
        """Write down, durably, that the data which `holdout` describes (`id` names it) is about to be shown.

        Returns all lines on record, oldest first and this use last, and how many could not be read. A line has a
        `kind`: `holdout` as it was described, or `use` with the name of the use, its `holdout`, and what it was given.
        """
        ...
