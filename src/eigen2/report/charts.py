"""A panel and its data -> a figure as Plotly draws it: plain dicts of traces and layout."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eigen2.report.reading import Table

POINTS = 1_500
"""A line of more points than a screen has columns is thinned out: of each bucket the lowest and the highest stay."""
BIRTHS = 3_000
"""Dots in a tree at most, the newest; the ancestors of the best are always there."""
BAND = "rgba(31,111,235,0.18)"
INNER_BAND = "rgba(31,111,235,0.35)"
HEAT = [[0.0, "rgba(31,111,235,0.03)"], [1.0, "rgb(31,111,235)"]]

Figure = dict[str, Any]


def draw(panel: Mapping[str, Any], sources: Mapping[str, Table]) -> Figure | None:
    """None when the panel has nothing to show yet, or is of a kind that this version does not know."""
    table = sources.get(str(panel.get("source", "metrics")))
    painter = {"lines": _lines, "spread": _spread, "heat": _heat, "tree": _tree}.get(str(panel.get("kind")))
    if painter is None or not table:
        return None
    return painter(panel, table)


def figure(traces: list[dict[str, Any]], x: str, unit: str, **layout: Any) -> Figure:
    return {
        "data": traces,
        "layout": {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": unit}}, **layout},
    }


def line(name: str, x: Sequence[Any], y: Sequence[Any], **style: Any) -> dict[str, Any]:
    x, y = thinned(x, y)
    return {"type": "scatter", "mode": "lines", "name": name.replace("_", " "), "x": x, "y": y, **style}


def stacked(name: str, x: Sequence[Any], y: Sequence[Any]) -> dict[str, Any]:
    step = max(1, len(x) // POINTS)
    return {"type": "scatter", "mode": "lines", "stackgroup": "one", "line": {"width": 0.5}, "name": name,
            "x": list(x[::step]), "y": list(y[::step])}  # fmt: skip


def thinned(x: Sequence[Any], y: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Points that have a value; the extremes of each bucket and the last point where there are too many."""
    kept = [i for i, (a, b) in enumerate(zip(x, y, strict=True)) if _is_number(b) and a is not None]
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


def _lines(panel: Mapping[str, Any], table: Table) -> Figure | None:
    x = str(panel.get("x", "step"))
    wanted = [str(name) for name in panel.get("y") or []]
    if x not in table:
        return None
    names = [name for name in table if (name in wanted if wanted else name != x)]
    names.sort(key=lambda name: wanted.index(name) if wanted else 0)
    band = (str(panel.get("low") or ""), str(panel.get("high") or ""))
    traces = []
    if all(name in table for name in band):
        traces = _band(table[x], table[band[0]], table[band[1]])
    unit = str(panel.get("unit") or "")
    for name in names:
        if name in band:
            continue
        values = table[name]
        if panel.get("growth") or panel.get("drawdown"):
            values, unit = _running(values, bool(panel.get("drawdown"))), "%"
        trace = line(name, table[x], values)
        if trace["y"]:
            traces.append(trace)
    return figure(traces, x, unit) if traces else None


def _band(x: Sequence[Any], low: Sequence[Any], high: Sequence[Any]) -> list[dict[str, Any]]:
    style = {"line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
    return [line("low", x, low, **style), line("high", x, high, fill="tonexty", fillcolor=BAND, **style)]


def _running(values: Sequence[Any], drawdown: bool) -> list[float | None]:
    total, highest = 0.0, 0.0
    found: list[float | None] = []
    for value in values:
        total += value if _is_number(value) else 0.0
        highest = max(highest, total)
        found.append(100.0 * math.expm1(max(-50.0, min(50.0, total - highest if drawdown else total))))
    return found


def _spread(panel: Mapping[str, Any], table: Table) -> Figure | None:
    x, y = str(panel.get("x")), str(panel.get("y"))
    if x not in table or y not in table:
        return None
    groups: dict[Any, list[float]] = {}
    for at, value in zip(table[x], table[y], strict=True):
        if _is_number(value) and at is not None:
            groups.setdefault(at, []).append(float(value))
    if not groups:
        return None
    at = list(groups)
    levels = [[_quantile(sorted(groups[key]), share) for key in at] for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    quiet = {"line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
    traces = [
        line("lowest", at, levels[0], **quiet),
        line("all", at, levels[4], fill="tonexty", fillcolor=BAND, **(quiet | {"showlegend": True})),
        line("quarter", at, levels[1], **quiet),
        line(
            "middle half",
            at,
            levels[3],
            fill="tonexty",
            fillcolor=INNER_BAND,
            **(quiet | {"showlegend": True}),
        ),
        line("median", at, levels[2]),
        line("best", at, levels[4], line={"dash": "dot"}),
    ]
    return figure(traces, x, str(panel.get("unit") or ""))


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _heat(panel: Mapping[str, Any], table: Table) -> Figure | None:
    x = str(panel.get("x"))
    names = [name for name in table if name != x]
    if x not in table or not names:
        return None
    step = max(1, len(table[x]) // POINTS)
    cells = [
        [round(value, 4) if _is_number(value) else None for value in table[name][::step]] for name in names
    ]
    trace = {"type": "heatmap", "x": table[x][::step], "y": names, "z": cells, "colorscale": HEAT,
             "colorbar": {"title": {"text": str(panel.get("unit") or "")}}}  # fmt: skip
    return figure([trace], x, "", height=min(900, 160 + 16 * len(names)))


def _tree(panel: Mapping[str, Any], table: Table) -> Figure | None:
    """Every birth at its time and score, coloured by how it came to be; lines lead to the best from its ancestors."""
    names = {part: str(panel.get(part)) for part in ("id", "parents", "x", "operator", "score")}
    if any(name not in table for name in names.values()):
        return None
    births = {key: birth for key, birth in _births(table, names).items() if _is_number(birth["score"])}
    if not births:
        return None
    best = max(births, key=lambda key: float(births[key]["score"]))
    ancestors = _ancestors(births, best)
    shown = {key: births[key] for key in (*list(births)[-BIRTHS:], *ancestors)}
    return figure([_edges(births, ancestors), *_dots(shown, best)], names["x"], names["score"], height=420)


def _births(table: Table, names: Mapping[str, str]) -> dict[Any, dict[str, Any]]:
    """The first record of each id, with the newest score that is known of it."""
    births: dict[Any, dict[str, Any]] = {}
    columns = (table[names[part]] for part in ("id", "parents", "x", "operator", "score"))
    for key, parents, x, operator, score in zip(*columns, strict=True):
        if not isinstance(key, int | str):
            continue
        birth = births.setdefault(key, {"parents": [], "x": x, "operator": str(operator), "score": score})
        if parents and not birth["parents"] and isinstance(parents, list):
            birth["parents"] = [
                parent for parent in parents if isinstance(parent, int | str) and parent != key
            ]
        if _is_number(score):
            birth["score"] = score
    return births


def _ancestors(births: Mapping[Any, dict[str, Any]], best: Any) -> list[Any]:
    """The best, its parents, theirs, and so on."""
    found, waiting = dict[Any, None](), [best]
    while waiting:
        key = waiting.pop()
        if key in births and key not in found:
            found[key] = None
            waiting += births[key]["parents"]
    return list(found)


def _edges(births: Mapping[Any, dict[str, Any]], ancestors: Sequence[Any]) -> dict[str, Any]:
    x, y = list[Any](), list[Any]()
    for key in ancestors:
        for parent in births[key]["parents"]:
            if parent in births:
                x += [births[parent]["x"], births[key]["x"], None]
                y += [births[parent]["score"], births[key]["score"], None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "name": "descent of the best",
        "line": {"width": 2},
    }


def _dots(births: Mapping[Any, dict[str, Any]], best: Any) -> list[dict[str, Any]]:
    traces = []
    for operator in sorted({birth["operator"] for birth in births.values()}):
        group = {key: birth for key, birth in births.items() if birth["operator"] == operator}
        traces.append(
            {
                "type": "scatter", "mode": "markers", "name": operator, "marker": {"size": 6, "opacity": 0.7},
                "x": [birth["x"] for birth in group.values()], "y": [birth["score"] for birth in group.values()],
                "text": [f"{key}" for key in group],
            }
        )  # fmt: skip
    star = {"size": 16, "symbol": "star-open", "line": {"width": 2}}
    at = births[best]
    return [
        *traces,
        {
            "type": "scatter",
            "mode": "markers",
            "name": "the best",
            "marker": star,
            "x": [at["x"]],
            "y": [at["score"]],
        },
    ]


def _is_number(value: Any) -> bool:
    # The types as they are first: logs have millions of these.
    kind = type(value)
    return math.isfinite(value) if kind is float else kind is int and abs(value) < 2**63
