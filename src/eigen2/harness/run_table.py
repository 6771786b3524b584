"""`eigen2 runs`: which of the runs are shown, in which order, and how."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.text import Text

from eigen2.cloud.words import legible, size_words
from eigen2.errors import ConfigError
from eigen2.harness.fitted import Column, FittedTable
from eigen2.harness.listing import STATES, list_runs

SORTS = ("name", "alg", "env", "seed", "state", "progress", "best", "size", "age", "host")
_FIELDS = {"size": "bytes"}
_COLOURS = {"running": "cyan", "done": "green", "stopped": "yellow", "crashed": "red", "damaged": "red"}
_COLUMNS = (
    Column("name", words=True),
    Column("alg", words=True, spared=3),
    Column("env", words=True, spared=4),
    Column("seed", spared=2),
    Column("state", words=True),
    Column("progress"),
    Column("best"),
    Column("size", spared=5),
    Column("age", spared=6),
    Column("host", words=True, spared=1),
)


def chosen_runs(
    root: Path,
    patterns: Mapping[str, Sequence[str]],
    sort: str = "age",
    reverse: bool = False,
) -> list[dict[str, Any]]:
    """The runs below `root` whose fields match one of the patterns (`name*`) for each field that has some; sorted, newest
    last when nothing else is said, those without a value at the end."""
    if sort not in SORTS:
        raise ConfigError(f"--sort is {sort!r}; it must be one of {', '.join(SORTS)}.")
    for state in patterns.get("state", ()):
        if not any(fnmatchcase(known, state) for known in STATES):
            raise ConfigError(f"--state is {state!r}; it must be one of {', '.join(STATES)}.")
    found = [run for run in list_runs(root) if _matches(run, patterns)]
    field = _FIELDS.get(sort, sort)
    known = [run for run in found if run[field] is not None]
    # The youngest is last, as in a list that is sorted by its date.
    known.sort(key=lambda run: run[field], reverse=reverse != (sort == "age"))
    return known + [run for run in found if run[field] is None]


def _matches(run: Mapping[str, Any], patterns: Mapping[str, Sequence[str]]) -> bool:
    return all(
        any(fnmatchcase(str(run[field]), pattern) for pattern in wanted)
        for field, wanted in patterns.items()
        if wanted
    )


def run_table(runs: Sequence[Mapping[str, Any]]) -> FittedTable:
    return FittedTable(_COLUMNS, [_row(run) for run in runs])


def nothing_found(root: Path, filtered: bool) -> str:
    if filtered:
        return f"No run in {root.absolute()} matches; `eigen2 runs` lists them all."
    return f"There is no run in {root.absolute()}; `eigen2 train` makes one."


def _row(run: Mapping[str, Any]) -> list[Text | str]:
    state = f"stopped at {run['step']}" if run["state"] == "stopped" else run["state"]
    return [
        legible(run["name"]),
        legible(run["alg"] or ""),
        legible(run["env"] or ""),
        "" if run["seed"] is None else f"{run['seed']}",
        Text(state, style=_COLOURS.get(run["state"], "")),
        f"{run['step']}/{'?' if run['steps'] is None else run['steps']}",
        "" if run["best"] is None else f"{run['best']:.4g}",
        size_words(run["bytes"]),
        age_words(run["age"]),
        legible(run["host"] or ""),
    ]


def age_words(seconds: float | None) -> str:
    """In the largest unit of which there are two."""
    if seconds is None:
        return ""
    for unit, length in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
