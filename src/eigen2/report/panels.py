"""A panel and its data -> a figure. Panels are data that came with the run; one that makes no sense shows nothing."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eigen2.report.charts import (
    BAND,
    COLOURS,
    HEAT,
    INNER_BAND,
    POINTS,
    ROWS,
    Figure,
    figure,
    is_number,
    line,
)
from eigen2.report.genealogy import tree
from eigen2.report.reading import Table
from eigen2.report.shown import Shown, number, words

NEWEST = 200
"""Rows of a table of the newest records."""
BARS = 20
"""Ranges of values that are counted."""
SYMBOLS = {"buy": "triangle-up", "sell": "triangle-down"}
SIDES = {"buy": "#1a9850", "sell": "#d73027"}


def shown_panels(
    panels: Iterable[Mapping[str, Any]],
    sources: Mapping[str, Table],
    facts: Mapping[str, Any],
) -> list[Shown]:
    """What can be shown of `panels`."""
    found = []
    for panel in panels:
        title, note = str(panel.get("title") or ""), str(panel.get("note") or "")
        if panel.get("kind") == "newest":
            shown = _newest(title, panel, sources.get(str(panel.get("source"))) or {})
        else:
            shown = Shown(title, draw(panel, sources, facts), note=note)
        if shown.figure or shown.rows:
            found.append(shown)
    return found


def _newest(title: str, panel: Mapping[str, Any], table: Table) -> Shown:
    x, y = str(panel.get("x")), str(panel.get("y"))
    columns = [name for name in _names(panel, "columns") if name in table]
    times = [at for at in table.get(x, []) if is_number(at)]
    if not times or y not in table:
        return Shown(title)
    last = max(times)
    rows = [row for row, at in enumerate(table[x]) if at == last]
    rows.sort(key=lambda row: -table[y][row] if is_number(table[y][row]) else math.inf)
    cells = [[_listed(table[name][row]) for name in columns] for row in rows[:NEWEST]]
    return Shown(f"{title}, {x} {last}", rows=cells, head=[words(name) for name in columns], wide=True)


def draw(
    panel: Mapping[str, Any], sources: Mapping[str, Table], facts: Mapping[str, Any] | None = None
) -> Figure | None:
    """None when the panel has nothing to show yet, or is of a kind that this version does not know. `facts` are those of
    an evaluation, for lines across."""
    table = sources.get(str(panel.get("source", "metrics")))
    if not table:
        return None
    kind = str(panel.get("kind"))
    if kind == "lines":
        return _lines(panel, table, facts or {})
    if kind == "marks":
        return _marks(panel, table, sources.get(str(panel.get("events"))) or {})
    painter = {"spread": _spread, "heat": _heat, "tree": tree, "bars": _bars, "against": _against}.get(kind)
    return None if painter is None else painter(panel, table)


def _lines(panel: Mapping[str, Any], table: Table, facts: Mapping[str, Any]) -> Figure | None:
    x = str(panel.get("x", "step"))
    wanted = _names(panel, "y")
    if x not in table:
        return None
    names = [name for name in table if (name in wanted if wanted else name != x)]
    names.sort(key=lambda name: wanted.index(name) if wanted else 0)
    band = (str(panel.get("low") or ""), str(panel.get("high") or ""))
    traces = []
    if all(name in table for name in band):
        traces = _band(table[x], table[band[0]], table[band[1]])
    unit = str(panel.get("unit") or "")
    for place, name in enumerate(name for name in names if name not in band):
        values = table[name]
        if panel.get("growth") or panel.get("drawdown"):
            values, unit = _running(values, bool(panel.get("drawdown"))), "%"
        trace = line(name, table[x], values, line={"color": COLOURS[place % len(COLOURS)]})
        if trace["y"]:
            traces.append(trace)
    if not traces:
        return None
    traces += _levels(panel, facts, [at for trace in traces for at in (trace["x"][0], trace["x"][-1])])
    return figure(traces, x, unit)


def _levels(panel: Mapping[str, Any], facts: Mapping[str, Any], ends: Sequence[Any]) -> list[dict[str, Any]]:
    """Lines across, at facts of an evaluation."""
    found = []
    for place, name in enumerate(_names(panel, "levels")):
        level = facts.get(str(name))
        if is_number(level) and all(is_number(end) for end in ends):
            style = {"color": "#8a94a3", "dash": ("dash", "dot", "dashdot")[place % 3]}
            found.append(line(str(name), [min(ends), max(ends)], [level, level], line=style))
    return found


def _marks(panel: Mapping[str, Any], table: Table, events: Table) -> Figure | None:
    """All columns with their events; `choices` says which traces belong to which."""
    x, of, side = (str(panel.get(part)) for part in ("x", "of", "side"))
    names = [name for name in table if name != x]
    if x not in table or not names:
        return None
    rows: dict[Any, list[int]] = {}
    if x in events and of in events:
        for row, name in enumerate(events[of]):
            rows.setdefault(str(name), []).append(row)
    told = [name for name in _names(panel, "told") if name in events]
    traces, choices = list[dict[str, Any]](), list[dict[str, Any]]()
    for name in sorted(names[:ROWS]):
        first = len(traces)
        curve = line(name, table[x], table[name], line={"color": COLOURS[0], "width": 1.2})
        if not curve["y"]:
            continue
        at = {str(when): value for when, value in zip(table[x], table[name], strict=True)}
        traces += [curve, *_events(rows.get(name, []), events, at, x, side, told)]
        count = len(rows.get(name, []))
        choices.append(
            {"label": f"{name} ({count})", "traces": list(range(first, len(traces))), "count": count}
        )
    if not choices:
        return None
    opened = max(range(len(choices)), key=lambda place: choices[place]["count"])
    drawn = figure(traces, x, str(panel.get("unit") or ""), height=380)
    return drawn | {"choices": choices, "chosen": opened}


def _events(
    rows: Sequence[int],
    events: Table,
    at: Mapping[Any, Any],
    x: str,
    side: str,
    told: Sequence[str],
) -> list[dict[str, Any]]:
    """One trace for each side, on the curve."""
    sides: dict[str, list[int]] = {}
    for row in rows:
        if is_number(at.get(str(events[x][row]))):
            sides.setdefault(str(events[side][row]) if side in events else "event", []).append(row)
    return [
        {
            "type": "scatter", "mode": "markers", "name": word, "x": [events[x][row] for row in found],
            "y": [at[str(events[x][row])] for row in found],
            "marker": {"size": 9, "symbol": SYMBOLS.get(word, "circle"), "color": SIDES.get(word, COLOURS[1])},
            "text": [", ".join(f"{key} {_short(events[key][row])}" for key in told) for row in found],
            "hoverinfo": "x+text+name",
        }
        for word, found in sorted(sides.items())
    ]  # fmt: skip


def _against(panel: Mapping[str, Any], table: Table) -> Figure | None:
    x, y, step = (str(panel.get(part)) for part in ("x", "y", "step"))
    if x not in table or y not in table:
        return None
    rows = [row for row in range(len(table[x])) if is_number(table[x][row]) and is_number(table[y][row])]
    rows = rows[:: max(1, len(rows) // POINTS)]
    if not rows:
        return None
    at = (
        [table[step][row] if is_number(table[step][row]) else 0 for row in rows]
        if step in table
        else [0] * len(rows)
    )
    scale = [[0.0, "rgba(31,111,235,0.25)"], [1.0, "rgb(31,111,235)"]]
    marker = {"size": 8, "color": at, "colorscale": scale, "colorbar": {"title": {"text": step}}}
    trace = {
        "type": "scatter", "mode": "markers", "name": step, "marker": marker, "x": [table[x][row] for row in rows],
        "y": [table[y][row] for row in rows], "text": [f"{step} {value}" for value in at],
    }  # fmt: skip
    return figure([trace], x.replace("_", " "), y.replace("_", " "))


def _bars(panel: Mapping[str, Any], table: Table) -> Figure | None:
    """How many values of each column lie in each of some ranges that all columns share."""
    columns = {name: [v for v in table[name] if is_number(v)] for name in _names(panel, "y") if name in table}
    values = [value for column in columns.values() for value in column]
    if not values:
        return None
    low, high = min(values), max(values)
    width = (high - low) / BARS or 1.0
    centres = [low + (place + 0.5) * width for place in range(BARS)]
    traces = []
    for place, (name, column) in enumerate(columns.items()):
        counts = [0] * BARS
        for value in column:
            counts[min(BARS - 1, int((value - low) / width))] += 1
        traces.append(
            {
                "type": "bar", "name": name.replace("_", " "), "x": centres, "y": counts, "opacity": 0.65,
                "marker": {"color": COLOURS[place % len(COLOURS)]},
            }
        )  # fmt: skip
    return figure(traces, str(panel.get("unit") or ""), "count", barmode="overlay", bargap=0.04)


def _band(x: Sequence[Any], low: Sequence[Any], high: Sequence[Any]) -> list[dict[str, Any]]:
    style = {"line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
    return [line("low", x, low, **style), line("high", x, high, fill="tonexty", fillcolor=BAND, **style)]


def _running(values: Sequence[Any], drawdown: bool) -> list[float | None]:
    total, highest = 0.0, 0.0
    found: list[float | None] = []
    for value in values:
        total += value if is_number(value) else 0.0
        highest = max(highest, total)
        found.append(100.0 * math.expm1(max(-50.0, min(50.0, total - highest if drawdown else total))))
    return found


def _spread(panel: Mapping[str, Any], table: Table) -> Figure | None:
    x, y = str(panel.get("x")), str(panel.get("y"))
    if x not in table or y not in table:
        return None
    groups: dict[Any, list[float]] = {}
    for at, value in zip(table[x], table[y], strict=True):
        if is_number(value) and at is not None:
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
        line("highest", at, levels[4], line={"dash": "dot"}),
    ]
    return figure(traces, x, str(panel.get("unit") or ""))


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _heat(panel: Mapping[str, Any], table: Table) -> Figure | None:
    x = str(panel.get("x"))
    names = _largest([name for name in table if name != x], table)
    if x not in table or not names:
        return None
    step = max(1, len(table[x]) // POINTS)
    cells = [
        [round(value, 4) if is_number(value) else None for value in table[name][::step]] for name in names
    ]
    trace = {"type": "heatmap", "x": table[x][::step], "y": names, "z": cells, "colorscale": HEAT,
             "colorbar": {"title": {"text": str(panel.get("unit") or "")}}}  # fmt: skip
    return figure([trace], x, "", height=min(1100, 160 + 16 * len(names)))


def _largest(names: Sequence[str], table: Table) -> list[str]:
    """Rows that a screen has room for, in their order."""
    if len(names) <= ROWS:
        return list(names)
    sums = {name: sum(abs(value) for value in table[name] if is_number(value)) for name in names}
    kept = set(sorted(names, key=lambda name: -sums[name])[:ROWS])
    return [name for name in names if name in kept]


def _names(panel: Mapping[str, Any], part: str) -> list[str]:
    """Columns that a panel names; it may be a stranger's, and name nothing."""
    found = panel.get(part)
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _listed(value: Any) -> str:
    """A cell of a table; of a long list its beginning."""
    if isinstance(value, list):
        return ", ".join(str(item) for item in value[:6]) + (", ..." if len(value) > 6 else "")
    return number(value)
