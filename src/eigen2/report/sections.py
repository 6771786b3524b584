"""What a report says about a run, section by section: figures, tables and sentences, not yet HTML."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eigen2.report.charts import Figure, draw, figure, line, stacked
from eigen2.report.reading import RunView, StoredEvaluation, Table

NOT_CURVES = {"step", "generation", "time", "seconds"}
NOT_FIGURES = {"time", "split", "policy"}
OWNERS = 8
"""Owners of memory that are drawn by themselves; the rest is one area."""


@dataclass
class Shown:
    """One picture or table under a title."""

    title: str
    figure: Figure | None = None
    rows: list[list[str]] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    text: str = ""


@dataclass
class Section:
    title: str
    shown: list[Shown] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.shown or self.notes)


def sections(view: RunView) -> list[Section]:
    found = [*(_evaluation(one, view) for one in reversed(view.evaluations)), _learning(view), _resources(view),
             _events(view), _setup(view)]  # fmt: skip
    return [section for section in found if section]


def summary(view: RunView) -> list[tuple[str, str]]:
    """The figures at the top of the page."""
    step, steps = view.last("step"), view.metadata.get("steps")
    facts = {
        "state": view.state,
        "progress": f"{step or 0} of {steps} steps" if steps else f"{step or 0} steps",
        "best score": number(view.last("best_score")),
        "took": _duration(view.logs["memory"].get("seconds", [])),
        "on disk": size(sum(view.disk.values())),
        "host": str(view.metadata.get("host") or ""),
        "started": str(view.metadata.get("started") or ""),
    }
    return [(name, value) for name, value in facts.items() if value]


def number(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return str(value)


def size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"


def _evaluation(one: StoredEvaluation, view: RunView) -> Section:
    facts = one.facts
    section = Section(f"Evaluation: {one.split}")
    if facts.get("verdict"):
        section.notes.append(str(facts["verdict"]))
    times = view.uses.get(one.split, 1)
    if times > 1:
        section.notes.append(f"Evaluated {times} times; the newest is shown.")
    section.shown += _drawn(one.panels, one.series)
    compared = {name: row for name, row in {"champion": facts.get("champion"), **_rows(facts.get("benchmarks"))}.items()
                if isinstance(row, dict)}  # fmt: skip
    if compared:
        section.shown.append(_comparison(compared))
    plain = [[name.replace("_", " "), number(value)] for name, value in facts.items()
             if name not in NOT_FIGURES and (isinstance(value, int | float) or (isinstance(value, str) and len(value) < 60))]  # fmt: skip
    section.shown.append(Shown("Figures", rows=plain))
    caveats = facts.get("caveats")
    section.notes += [f"Note: {caveat}" for caveat in (caveats if isinstance(caveats, list) else [])]
    return section


def _rows(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _comparison(rows: Mapping[str, dict[str, Any]]) -> Shown:
    columns = list(
        dict.fromkeys(name for row in rows.values() for name, value in row.items() if _simple(value))
    )
    body = [
        [name.replace("_", " "), *(_cell(row.get(column)) for column in columns)]
        for name, row in rows.items()
    ]
    return Shown(
        "Beside its benchmarks", rows=body, head=["", *(column.replace("_", " ") for column in columns)]
    )


def _simple(value: Any) -> bool:
    pair = isinstance(value, list) and len(value) == 2
    return pair or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(number(part) for part in value)
    return number(value)


def _learning(view: RunView) -> Section:
    section = Section("Learning")
    sources = {**view.logs}
    section.shown += _drawn(view.panels, sources)
    drawn = {name for panel in view.panels if panel.get("source", "metrics") == "metrics"
             for name in (panel.get("y") or [])}  # fmt: skip
    metrics = view.logs["metrics"]
    for name in metrics:
        if name in NOT_CURVES or name in drawn:
            continue
        trace = line(name, metrics["step"], metrics[name]) if "step" in metrics else {"y": []}
        if len(set(trace["y"])) > 1:
            section.shown.append(Shown(name.replace("_", " "), figure([trace], "step", "")))
    return section


def _drawn(panels: Iterable[dict[str, Any]], sources: Mapping[str, Table]) -> list[Shown]:
    found = []
    for panel in panels:
        drawn = draw(panel, sources)
        if drawn is not None:
            found.append(Shown(str(panel.get("title") or ""), drawn))
    return found


def _resources(view: RunView) -> Section:
    section, memory = Section("Resources"), view.logs["memory"]
    if memory.get("step"):
        section.shown.append(_memory(view, memory))
        seconds = line("seconds per step", memory["step"], memory["seconds"])
        section.shown.append(Shown("Time per step", figure([seconds], "step", "s")))
    section.shown += _forecast(view)
    if view.disk:
        rows = [[name, size(count)] for name, count in view.disk.items()]
        section.shown.append(Shown("On disk", rows=rows, head=["part", "size"]))
    return section


def _memory(view: RunView, memory: Table) -> Shown:
    """Bytes by owner, stacked, under what the process holds altogether."""
    owners = {name: values for name, values in memory.items() if name.startswith("owner ")}
    largest = sorted(owners, key=lambda name: -max((value or 0) for value in owners[name]))
    steps = memory["step"]
    traces = [stacked(name.removeprefix("owner "), steps, [(value or 0) / 1e6 for value in owners[name]])
              for name in largest[:OWNERS]]  # fmt: skip
    rest = largest[OWNERS:]
    if rest:
        totals = [sum((owners[name][i] or 0) for name in rest) / 1e6 for i in range(len(steps))]
        traces.append(stacked("others", steps, totals))
    traces.append(
        line(
            "whole process (RSS)",
            steps,
            [None if value is None else value / 1e6 for value in memory["rss_bytes"]],
        )
    )
    forecast = _rows(view.metadata.get("forecast")).get("ram_bytes")
    if isinstance(forecast, int | float) and steps:
        traces.append(line("forecast", [steps[0], steps[-1]], [forecast / 1e6] * 2, line={"dash": "dash"}))
    return Shown("Memory by owner", figure(traces, "step", "MB"))


def _forecast(view: RunView) -> list[Shown]:
    forecast, actual = _rows(view.metadata.get("forecast")), _rows(view.metadata.get("actual"))
    rows = []
    for key, label in (("ram_bytes", "memory"), ("disk_bytes", "disk"), ("upload_bytes", "upload")):
        before, after = forecast.get(key), actual.get(key)
        if isinstance(before, int | float):
            ratio = (
                [size(after), f"{before / after:.2f}"]
                if isinstance(after, int | float) and after
                else ["", ""]
            )
            rows.append([label, size(before), *ratio])
    return [Shown("Forecast and actual", rows=rows, head=["", "forecast", "actual", "ratio"])] if rows else []


def _events(view: RunView) -> Section:
    section = Section("Events")
    section.notes = [f"This part of the run could not be read: {problem}" for problem in view.problems]
    if view.events:
        rows = [[_moment(event.get("time")), str(event.get("kind") or ""), str(event.get("message") or "")]
                for event in view.events[-200:]]  # fmt: skip
        section.shown.append(Shown("What happened", rows=rows, head=["when (UTC)", "kind", ""]))
    return section


def _setup(view: RunView) -> Section:
    section, data = Section("Set-up"), view.metadata
    rows = [["command", str(data.get("command") or "")], ["code", str(data.get("git") or "")],
            ["data fingerprint", str(data.get("data_fingerprint") or "")], ["python", str(data.get("python") or "")],
            ["machine", f"{data.get('platform') or ''}, {data.get('cpus') or '?'} cores, GPU: {data.get('gpu') or 'none'}"],
            ["reason of the last stop", str(data.get("reason") or "")]]  # fmt: skip
    rows += [[name, str(version)] for name, version in _rows(data.get("packages")).items() if version]
    section.shown.append(Shown("Run", rows=[row for row in rows if row[1]]))
    if view.config:
        section.shown.append(Shown("Config", text=json.dumps(view.config, indent=1)))
    return section


def _moment(value: Any) -> str:
    import time

    if not isinstance(value, int | float):
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(value))


def _duration(seconds: list[Any]) -> str:
    total = sum(value for value in seconds if isinstance(value, int | float))
    if not total:
        return ""
    minutes, rest = divmod(round(total), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"
