"""Where a run comes from and what happened to it: integrity, events, settings, and how to do it again."""

import json
import shlex
from collections import Counter
from collections.abc import Mapping
from typing import Any

from eigen2.report.reading import RunView
from eigen2.report.shown import Section, Shown, moment, number, table

EVENTS = 200
"""The newest events that are listed."""
QUIET = ("start", "cloud")
"""Events of every healthy run."""
NAMED = {"resume": "resumed", "damage": "damage found", "log_mended": "log mended", "repair": "repaired",
         "memory_short": "memory was short", "memory_full": "stopped by the memory guard", "stall": "stalled",
         "dropped": "step dropped", "exit": "ended early", "out_of_memory": "batch halved", "report_failed": "report failed"}  # fmt: skip
HERE = ("run.root", "run.name", "run.report", "cloud.url")
"""Keys that belong to a place, not to an experiment."""


def events(view: RunView) -> Section:
    """The integrity log."""
    section = Section("Integrity")
    section.notes = [f"This part of the run could not be read: {problem}" for problem in view.problems]
    counts = Counter(str(event.get("kind") or "") for event in view.events)
    special = {kind: count for kind, count in counts.items() if kind not in QUIET}
    damage = view.metadata.get("damage")
    section.notes += [str(sentence) for sentence in (damage if isinstance(damage, list) else [])]
    if special:
        told = ", ".join(
            f"{NAMED.get(kind, kind.replace('_', ' '))} {_times(count)}" for kind, count in special.items()
        )
        section.notes.append(f"During this run: {told}.")
    elif view.events and not section.notes:
        section.notes.append(
            "Uninterrupted: never resumed, repaired or short of memory, and no damage was found."
        )
    if view.metadata.get("reason"):
        section.notes.append(f"How it ended: {view.metadata['reason']}")
    if view.events:
        rows = [[moment(event.get("time")), str(event.get("kind") or ""), str(event.get("message") or "")]
                for event in view.events[-EVENTS:]]  # fmt: skip
        section.shown.append(Shown("What happened", rows=rows, head=["when (UTC)", "kind", ""], wide=True))
    return section


def set_up(view: RunView) -> Section:
    section, data = Section("Set-up"), view.metadata
    section.shown.append(Shown("Run it again", text=_command(view), wide=True))
    changed = _differences(data)
    if changed is not None:
        presets = " ".join(f"{group}={name}" for group, name in table(view.config.get("presets")).items())
        rows = [[key, number(before), number(after)] for key, (before, after) in changed.items()]
        section.shown.append(Shown(f"Differs from {presets or 'its presets'}", rows=rows or [["nothing", "", ""]], head=["key", "preset", "here"]))  # fmt: skip
    rows = [["command", str(data.get("command") or "")], ["code", str(data.get("git") or "")],
            ["data fingerprint", str(data.get("data_fingerprint") or "")], ["python", str(data.get("python") or "")],
            ["machine", f"{data.get('platform') or ''}, {data.get('cpus') or '?'} cores of {data.get('processor') or 'an unknown processor'}, GPU: {data.get('gpu') or 'none'}"],
            ["Slurm job", str(data.get("slurm_job_id") or "")]]  # fmt: skip
    rows += [[name, str(version)] for name, version in table(data.get("packages")).items() if version]
    section.shown.append(Shown("Run", rows=[row for row in rows if row[1]]))
    if view.config:
        section.shown.append(Shown("Config", text=json.dumps(view.config, indent=1), wide=True))
    return section


def _command(view: RunView) -> str:
    """Presets and what differs from them where that is known; else the words that were typed."""
    data, changed = view.metadata, _differences(view.metadata)
    presets = table(view.config.get("presets"))
    if changed is None or not presets:
        typed = str(data.get("command") or "eigen2 train")
    else:
        words = [f"{group}={name}" for group, name in presets.items()]
        words += [f"{key}={_value(after)}" for key, (_, after) in changed.items() if key not in HERE]
        typed = shlex.join(["eigen2", "train", *words])
    commit = str(data.get("git") or "").removesuffix("-dirty")
    lines = [f"git checkout {commit}"] if commit else []
    if str(data.get("git") or "").endswith("-dirty"):
        lines.append("# the code had changes that were not committed")
    return "\n".join([*lines, typed])


def _differences(data: Mapping[str, Any]) -> dict[str, tuple[Any, Any]] | None:
    """As run.json has them: key -> preset and now."""
    found = data.get("config_diff")
    if not isinstance(found, dict):
        return None
    return {
        str(key): (row.get("preset"), row.get("now")) for key, row in found.items() if isinstance(row, dict)
    }


def _value(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list | dict | bool) or value is None else str(value)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
