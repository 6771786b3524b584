"""Where the best individual comes from: births over time, and the lines that lead to it."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from eigen2.report.charts import COLOURS, Figure, figure, is_number
from eigen2.report.reading import Table

BIRTHS = 3_000
"""Dots at most, the newest; the ancestors of the best are always there."""
EDGES = 4_000
"""Lines from parents to children at most, those nearest to the best."""
Births = Mapping[Any, dict[str, Any]]


def tree(panel: Mapping[str, Any], table: Table) -> Figure | None:
    """Every birth at its time and score, coloured by how it came to be; lines lead to the best from its ancestors."""
    names = {part: str(panel.get(part)) for part in ("id", "parents", "x", "operator", "score")}
    if any(name not in table for name in names.values()):
        return None
    births = {key: birth for key, birth in _births(table, names).items() if is_number(birth["score"])}
    if not births:
        return None
    best = _chosen(births, table, names["id"], str(panel.get("chosen") or ""))
    ancestors = _ancestors(births, best)
    shown = {key: births[key] for key in (*list(births)[-BIRTHS:], *ancestors)}
    lines = [
        _edges(births, _pairs(births, ancestors), "its ancestors", {"width": 0.6, "color": "rgba(31,111,235,0.25)"}),
        _edges(births, _best_line(births, best), "its best ancestors", {"width": 3, "color": COLOURS[0]}),
    ]  # fmt: skip
    known = [one for one in lines if one["x"]]
    return figure([*known, *_dots(shown, best)], names["x"], names["score"], height=420)


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
        if is_number(score):
            birth["score"] = score
    return births


def _chosen(births: Births, table: Table, key: str, mark: str) -> Any:
    """The last one that a record calls the best."""
    marked = [
        one
        for one, yes in zip(table[key], table.get(mark, []), strict=False)
        if yes is True and one in births
    ]
    return marked[-1] if marked else max(births, key=lambda one: float(births[one]["score"]))


def _ancestors(births: Births, best: Any) -> list[Any]:
    """The best, its parents, theirs, and so on."""
    found, waiting = dict[Any, None](), deque([best])
    while waiting:
        key = waiting.popleft()
        if key in births and key not in found:
            found[key] = None
            waiting += births[key]["parents"]
    return list(found)


def _pairs(births: Births, ancestors: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Parent and child, for all of them; the newest where they are too many."""
    found = [(parent, key) for key in ancestors for parent in births[key]["parents"] if parent in births]
    return found[:EDGES]


def _best_line(births: Births, best: Any) -> list[tuple[Any, Any]]:
    """From the best to the best of its parents, and on."""
    found, key, seen = list[tuple[Any, Any]](), best, {best}
    while parents := [p for p in births[key]["parents"] if p in births and p not in seen]:
        parent = max(parents, key=lambda p: float(births[p]["score"]))
        found.append((parent, key))
        seen.add(parent)
        key = parent
    return found


def _edges(
    births: Births, pairs: Sequence[tuple[Any, Any]], name: str, style: dict[str, Any]
) -> dict[str, Any]:
    x, y = list[Any](), list[Any]()
    for parent, key in pairs:
        x += [births[parent]["x"], births[key]["x"], None]
        y += [births[parent]["score"], births[key]["score"], None]
    return {
        "type": "scatter", "mode": "lines", "x": x, "y": y, "name": name, "line": style, "hoverinfo": "skip",
    }  # fmt: skip


def _dots(births: Births, best: Any) -> list[dict[str, Any]]:
    traces = []
    for operator in sorted({birth["operator"] for birth in births.values()}):
        group = {key: birth for key, birth in births.items() if birth["operator"] == operator}
        traces.append(
            {
                "type": "scatter", "mode": "markers", "name": operator, "marker": {"size": 6, "opacity": 0.7},
                "x": [birth["x"] for birth in group.values()], "y": [birth["score"] for birth in group.values()],
                "text": [_told(key, birth) for key, birth in group.items()], "hoverinfo": "text",
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


def _told(key: Any, birth: Mapping[str, Any]) -> str:
    parents = birth["parents"]
    few = ", ".join(str(parent) for parent in parents[:6]) + (", ..." if len(parents) > 6 else "")
    return f"{key}: {birth['operator']}, {float(birth['score']):.4g}" + (f"<br>from {few}" if parents else "")
