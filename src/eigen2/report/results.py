"""What evaluations found: the verdict in plain words, pictures, figures, data and caveats."""

from collections.abc import Mapping
from typing import Any

from eigen2.report.panels import shown_panels
from eigen2.report.reading import RunView, StoredEvaluation
from eigen2.report.shown import Section, Shown, number, table, words

NOT_FIGURES = {"time", "split", "policy", "verdict", "note", "market", "champion_fingerprint", "episodes"}
PERCENT = {"simple_return", "cagr", "volatility", "max_drawdown", "hit_rate", "exposure"}
"""Shares that are read in per cent."""
COLUMNS = ("simple_return", "cagr", "volatility", "sharpe", "sharpe_ci", "sortino", "max_drawdown", "hit_rate", "turnover", "trades", "exposure")  # fmt: skip
RENAMED = {"simple_return": "return", "cagr": "a year", "sharpe": "Sharpe", "sharpe_ci": "95 % interval", "sortino": "Sortino",
           "max_drawdown": "drawdown", "hit_rate": "days up", "exposure": "invested"}  # fmt: skip
DECIDING = ("holdout", "walk_forward")
"""Splits whose verdict comes first, in this order."""
LONGEST_FIGURE = 60


def verdict(view: RunView) -> Section:
    """The one sentence that matters, before everything else."""
    section, one = Section("Verdict"), deciding(view)
    if one is not None:
        sentence = str(one.facts["verdict"])
        named = one.split != "evaluation"
        section.notes.append(
            f"{words(one.split).capitalize()}: {sentence}" if named else sentence[:1].upper() + sentence[1:]
        )
        section.tone = "good" if one.facts.get("evidence_of_skill") is True else ""
    elif not view.evaluations:
        section.notes.append(
            f"Not evaluated yet: the run is {view.state}, at step {view.last('step') or 0} of {view.metadata.get('steps') or '?'}."
        )
    return section


def deciding(view: RunView) -> StoredEvaluation | None:
    """The evaluation whose verdict counts: days that took no part in training, if there are any; else the newest."""
    found = {one.split: one for one in view.evaluations if isinstance(one.facts.get("verdict"), str)}
    splits = [split for split in DECIDING if split in found] or list(found)[-1:]
    return found[splits[0]] if splits else None


def evaluation(one: StoredEvaluation, view: RunView) -> Section:
    facts = one.facts
    section = Section("Evaluation" if one.split == "evaluation" else f"Evaluation: {words(one.split)}")
    if isinstance(facts.get("verdict"), str) and one is not deciding(view):
        section.notes.append(str(facts["verdict"]))
    times = view.uses.get(str(facts.get("split")), 1)
    if times > 1:
        section.notes.append(f"Evaluated {times} times; the newest is shown.")
    section.shown += shown_panels(one.panels, one.series, facts)
    section.shown += [
        shown for shown in (_benchmarks(facts), _control(facts), _tasks(facts), _folds(facts)) if shown.rows
    ]
    section.shown.append(Shown("Figures", rows=_figures(facts)))
    data = {**table(facts.get("data"))}
    if data:
        section.shown.append(
            Shown("Data", rows=[[words(name), number(value)] for name, value in data.items()])
        )
    section.shown += _caveats(facts)
    return section


def _figures(facts: Mapping[str, Any]) -> list[list[str]]:
    plain = {**facts, **{f"cost: {words(name)}": value for name, value in table(facts.get("costs")).items()}}
    return [
        [words(name), number(value)]
        for name, value in plain.items()
        if name not in NOT_FIGURES
        and (isinstance(value, int | float) or (isinstance(value, str) and len(value) < LONGEST_FIGURE))
    ]


def _caveats(facts: Mapping[str, Any]) -> list[Shown]:
    caveats = facts.get("caveats")
    found = [str(caveat) for caveat in (caveats if isinstance(caveats, list) else [])]
    found += [str(facts["note"])] if isinstance(facts.get("note"), str) else []
    return [Shown("Caveats", rows=[[caveat] for caveat in found])] if found else []


def _benchmarks(facts: Mapping[str, Any]) -> Shown:
    rows = {"champion": facts.get("champion"), **table(facts.get("benchmarks"))}
    known = {name: row for name, row in rows.items() if isinstance(row, dict)}
    used = [column for column in COLUMNS if any(column in row for row in known.values())]
    body = [
        [words(name), *(_cell(column, row.get(column)) for column in used)] for name, row in known.items()
    ]
    head = ["", *(RENAMED.get(column, words(column)) for column in used)]
    return Shown("Beside its benchmarks", rows=body if used else [], head=head)


def _control(facts: Mapping[str, Any]) -> Shown:
    """On control there is no price to beat, but doing nothing, and doing anything."""
    named = {
        "champion": "mean_return",
        "random actions": "random_return",
        "standing still": "stand_still_return",
    }
    rows = [
        [name, number(facts[key]), number(facts.get("std_return")) if key == "mean_return" else ""]
        for name, key in named.items()
        if isinstance(facts.get(key), int | float)
    ]
    return Shown(
        f"{facts.get('episodes', '')} fresh episodes".strip(),
        rows=rows,
        head=["", "mean return", "deviation"],
    )


def _tasks(facts: Mapping[str, Any]) -> Shown:
    columns = ("mean_return", "std_return", "random_return", "stand_still_return")
    rows = [[str(name), *(number(row.get(column)) for column in columns)]
            for name, row in table(facts.get("tasks")).items() if isinstance(row, dict)]  # fmt: skip
    return Shown("By task", rows=rows, head=["task", *map(words, columns)])


def _folds(facts: Mapping[str, Any]) -> Shown:
    """Walk-forward: every champion on the days after its own."""
    folds = facts.get("folds")
    rows = [fold for fold in (folds if isinstance(folds, list) else []) if isinstance(fold, dict)]
    head = ["run", "first", "last", "log_return", "equal_weight", "verdict"]
    body = [[_percent_of_log(row, column) if column in head[3:5] else str(row.get(column) or "").split(":")[0] for column in head] for row in rows]  # fmt: skip
    return Shown("Walk-forward folds", rows=body, head=["run", "first", "last", "return", "equal weight", "verdict"], wide=True)  # fmt: skip


def _percent_of_log(row: Mapping[str, Any], column: str) -> str:
    import math

    value = row.get(column)
    known = isinstance(value, int | float) and abs(value) < 50
    return f"{100 * math.expm1(float(value)):+.1f} %" if known and value is not None else ""


def _cell(column: str, value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(f"{part:.2f}" if isinstance(part, float) else number(part) for part in value)
    if column in PERCENT and isinstance(value, int | float):
        return f"{100 * value:.1f} %"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else f"{value:.2f}"
    return number(value)
