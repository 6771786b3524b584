"""Which run is which: every run below a directory and how it stands, from files alone."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from eigen2.errors import DamagedStateError
from eigen2.harness.journal import last_record
from eigen2.harness.lock import dead_holder
from eigen2.harness.run import Run
from eigen2.store.layout import check_layout


def list_runs(root: Path) -> list[dict[str, Any]]:
    """Every run below `root`, newest last."""
    return [_summary(Run(path)) for path in run_paths(root)]


def run_paths(root: Path) -> list[Path]:
    """Directories of the runs below `root`, the one that changed last at the end."""
    paths = sorted(root.iterdir() if root.is_dir() else [], key=_changed)
    return [path for path in paths if _is_run(path)]


def _is_run(path: Path) -> bool:
    try:
        return not path.is_symlink() and not path.name.startswith(".") and (path / "config.yaml").is_file()
    except OSError:
        # A directory that may not be looked into: whether it is a run is not known.
        return False


def _changed(path: Path) -> float:
    """When a run was changed last; one that was deleted meanwhile comes first, and is then no run."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _summary(run: Run) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    last: dict[str, Any] = {}
    try:
        check_layout(run.path)
        metadata = run.metadata()
        state = state_of(run, metadata)
        last = last_record(run.log("metrics"))
    except (ValueError, OSError, DamagedStateError):
        # One damaged run must not hide the others.
        state = "damaged"
    numbers = {
        "step": last.get("step", 0),
        "steps": metadata.get("steps"),
        "best": last.get("best_score", last.get("champion")),
    }
    if wrong := [name for name, value in numbers.items() if not _is_number(value)]:
        state = "damaged"
        numbers |= dict.fromkeys(wrong, None) | ({"step": 0} if "step" in wrong else {})
    return {"name": run.name, "path": str(run.path), "state": state, **numbers, "bytes": _bytes(run.path)}


def state_of(run: Run, metadata: dict[str, Any]) -> str:
    """The status in run.json; `killed` when its process died without a word."""
    status = metadata.get("status", "unknown")
    if not (isinstance(status, str) and status.isidentifier()):
        return "damaged"
    return "killed" if status in ("running", "unknown") and dead_holder(run.path) else status


def _is_number(value: object) -> bool:
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63
    return known or value is None


def _bytes(directory: Path) -> int:
    """Of all files; one that a training run has just replaced, or that cannot be looked at, counts nothing."""
    found = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                state = os.lstat(os.path.join(place, name))
                found += state.st_size if stat.S_ISREG(state.st_mode) else 0
    return found
