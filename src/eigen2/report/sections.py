"""What a report says about a run, section by section: figures, tables and sentences, not yet HTML."""

from collections.abc import Mapping
from typing import Any

from eigen2.report.charts import figure, line
from eigen2.report.origin import events, set_up
from eigen2.report.panels import shown_panels
from eigen2.report.reading import RunView
from eigen2.report.resources import resources
from eigen2.report.results import evaluation, verdict
from eigen2.report.shown import Section, Shown, duration, number, size, total, words

NOT_CURVES = {"step", "generation", "time", "seconds"}


def sections(view: RunView) -> list[Section]:
    found = [verdict(view), _film(view), *(evaluation(one, view) for one in reversed(view.evaluations)), learning(view),
             resources(view), events(view), set_up(view)]  # fmt: skip
    return [section for section in found if section]


def summary(view: RunView) -> list[tuple[str, str]]:
    """The figures at the top of the page."""
    step, steps = view.last("step"), view.metadata.get("steps")
    unit = str(view.metadata.get("step_name") or "step")
    facts = {
        "state": view.state,
        "phase": view.phase,
        "progress": f"{step or 0} of {steps} {unit}s" if steps else f"{step or 0} {unit}s",
        "best score": number(view.last("best_score")),
        "took": duration(total(view.logs["memory"].get("seconds", []))),
        "left": duration(view.seconds_left or 0.0),
        "on disk": size(sum(view.disk.values())),
        "host": str(view.metadata.get("host") or ""),
        "started": str(view.metadata.get("started") or "").replace("T", " ").replace("Z", " UTC"),
    }
    return [(name, value) for name, value in facts.items() if value]


def _film(view: RunView) -> Section:
    return Section("Film", [Shown("The champion at work", image=view.film, wide=True)] if view.film else [])


def learning(view: RunView) -> Section:
    """The algorithm's own panels, then a curve for every metric that none of them names."""
    section = Section("Learning")
    facts = view.evaluations[-1].facts if view.evaluations else {}
    section.shown += shown_panels(view.panels, view.logs, facts)
    drawn = {
        name
        for panel in view.panels
        if panel.get("source", "metrics") == "metrics"
        for name in _columns(panel)
    }
    metrics = view.logs["metrics"]
    for name in metrics:
        if name in NOT_CURVES or name in drawn:
            continue
        trace = line(name, metrics["step"], metrics[name]) if "step" in metrics else {"y": []}
        if len(set(trace["y"])) > 1:
            section.shown.append(Shown(words(name), figure([trace], "step", "")))
    return section


def _columns(panel: Mapping[str, Any]) -> list[str]:
    found = panel.get("y")
    return [str(name) for name in found] if isinstance(found, list) else [str(found)]
