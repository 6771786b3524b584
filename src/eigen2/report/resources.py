"""What a run takes: memory by owner against the forecast, time by phase, disk, and what waits to be uploaded."""

from eigen2.report.charts import figure, line, stacked
from eigen2.report.reading import RunView, Table
from eigen2.report.shown import Section, Shown, duration, number, size, table, total

OWNERS = 8
"""Owners of memory, or phases, that are drawn by themselves; the rest is one area."""


def resources(view: RunView) -> Section:
    section, memory = Section("Resources"), view.logs["memory"]
    if memory.get("step"):
        section.shown += [_memory(view, memory), _phases(memory)]
    section.shown += _forecast(view)
    section.shown += _upload(view)
    if view.disk:
        rows = [[name, size(count)] for name, count in view.disk.items()]
        section.shown.append(Shown("On disk", rows=rows, head=["part", "size"]))
    return section


def _parts(memory: Table, prefix: str, scale: float) -> list[dict[str, object]]:
    """The largest columns of a kind, stacked, and the rest as one."""
    parts = {name: values for name, values in memory.items() if name.startswith(prefix)}
    largest = sorted(parts, key=lambda name: -max((value or 0) for value in parts[name]))
    steps = memory["step"]
    traces = [stacked(name.removeprefix(prefix), steps, [(value or 0) / scale for value in parts[name]])
              for name in largest[:OWNERS]]  # fmt: skip
    rest = largest[OWNERS:]
    if rest:
        sums = [sum((parts[name][i] or 0) for name in rest) / scale for i in range(len(steps))]
        traces.append(stacked("others", steps, sums))
    return traces


def _memory(view: RunView, memory: Table) -> Shown:
    """Bytes by owner, stacked, under what the process holds altogether."""
    steps = memory["step"]
    traces = _parts(memory, "owner ", 1e6)
    resident = [None if value is None else value / 1e6 for value in memory["rss_bytes"]]
    traces.append(line("whole process (RSS)", steps, resident))
    forecast = table(view.metadata.get("forecast")).get("ram_bytes")
    if isinstance(forecast, int | float) and steps:
        traces.append(line("forecast", [steps[0], steps[-1]], [forecast / 1e6] * 2, line={"dash": "dash"}))
    return Shown("Memory by owner", figure(traces, "step", "MB", height=380))


def _phases(memory: Table) -> Shown:
    """Seconds of each phase; of runs that did not measure them, of each step."""
    traces = _parts(memory, "phase ", 1.0)
    steps = line("whole step", memory["step"], memory["seconds"], line={"width": 1, "color": "#8a94a3"})
    spent = {trace["name"]: total(trace["y"]) for trace in traces if isinstance(trace["y"], list)}
    note = ", ".join(f"{name} {duration(seconds)}" for name, seconds in spent.items() if seconds >= 0.05)
    return Shown("Time by phase" if traces else "Time per step", figure([*traces, steps], "step", "s", height=380), note=note and f"In all: {note}.")  # fmt: skip


def _forecast(view: RunView) -> list[Shown]:
    forecast, actual = table(view.metadata.get("forecast")), table(view.metadata.get("actual"))
    rows = []
    for key, label in (
        ("ram_bytes", "memory"),
        ("disk_bytes", "disk"),
        ("upload_bytes", "upload"),
        ("seconds", "time"),
    ):
        before, after = forecast.get(key), actual.get(key)
        shown = duration if key == "seconds" else size
        if isinstance(before, int | float) and (before or after):
            row = [label, shown(before)]
            if isinstance(after, int | float) and after:
                row += [shown(after), f"{before / after:.2f}"]
            rows.append(row + [""] * (4 - len(row)))
    return [Shown("Forecast and actual", rows=rows, head=["", "forecast", "actual", "ratio"])] if rows else []


def _upload(view: RunView) -> list[Shown]:
    if not view.cloud:
        return []
    rows = [["goes to", view.cloud.url], ["waiting", f"{number(view.cloud.objects)} objects, {size(view.cloud.bytes)}" if view.cloud.objects else "nothing"]]  # fmt: skip
    said = [event for event in view.events if event.get("kind") == "cloud"][-1:]
    rows += [["last news", str(event.get("message") or "")] for event in said]
    return [Shown("Upload", rows=rows)]
