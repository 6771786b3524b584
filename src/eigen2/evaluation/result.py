"""What every evaluation comes to, whatever was evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
