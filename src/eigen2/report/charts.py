"""Figures as Plotly draws them: plain dicts of traces and layout."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

POINTS = 1_500
"""A line of more points than a screen has columns is thinned out: of each bucket the lowest and the highest stay."""
ROWS = 60
"""Rows of a heat map, those with the largest values."""
BAND = "rgba(31,111,235,0.18)"
INNER_BAND = "rgba(31,111,235,0.35)"
COLOURS = ("#1f6feb", "#e8710a", "#1a9850", "#c2185b", "#7b3fb5", "#00838f", "#8d6e63", "#9e9d24")
HEAT = [[0.0, "rgba(31,111,235,0.03)"], [1.0, "rgb(31,111,235)"]]

Figure = dict[str, Any]


def figure(traces: list[dict[str, Any]], x: str, unit: str, **layout: Any) -> Figure:
    named = len([trace for trace in traces if trace.get("showlegend", True)]) > 1
    axes = {"xaxis": {"title": {"text": x.replace("_", " ")}}, "yaxis": {"title": {"text": unit}}}
    return {"data": traces, "layout": {**axes, "showlegend": named, **layout}}


def line(name: str, x: Sequence[Any], y: Sequence[Any], **style: Any) -> dict[str, Any]:
    x, y = thinned(x, y)
    return {"type": "scatter", "mode": "lines", "name": name.replace("_", " "), "x": x, "y": y, **style}


def stacked(name: str, x: Sequence[Any], y: Sequence[Any]) -> dict[str, Any]:
    step = max(1, len(x) // POINTS)
    return {"type": "scatter", "mode": "lines", "stackgroup": "one", "line": {"width": 0.5}, "name": name,
            "x": list(x[::step]), "y": list(y[::step])}  # fmt: skip


def thinned(x: Sequence[Any], y: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Points that have a value; the extremes of each bucket and the last point where there are too many."""
    kept = [i for i, (a, b) in enumerate(zip(x, y, strict=True)) if is_number(b) and a is not None]
    if len(kept) > POINTS:
        values = np.array([y[i] for i in kept], np.float64)
        size = math.ceil(2 * len(kept) / POINTS)
        whole = len(kept) // size * size
        buckets = values[:whole].reshape(-1, size)
        starts = np.arange(0, whole, size)
        rest = (
            [whole + int(values[whole:].argmin()), whole + int(values[whole:].argmax())]
            if whole < len(kept)
            else []
        )
        chosen = np.unique(
            [*(starts + buckets.argmin(1)), *(starts + buckets.argmax(1)), *rest, len(kept) - 1]
        )
        kept = [kept[i] for i in chosen]
    return [x[i] for i in kept], [y[i] for i in kept]


def is_number(value: Any) -> bool:
    # The types as they are first: logs have millions of these.
    kind = type(value)
    return math.isfinite(value) if kind is float else kind is int and abs(value) < 2**63
