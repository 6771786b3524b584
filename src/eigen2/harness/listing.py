"""Which run is which: every run below a directory and how it stands, from files alone."""

import stat
from pathlib import Path
from typing import Any

from eigen2.errors import DamagedStateError
from eigen2.harness.journal import last_record
from eigen2.harness.lock import dead_holder
from eigen2.harness.run import Run
from eigen2.store.layout import check_layout


def list_runs(root: Path) -> list[dict[str, Any]]:
    """Every run below `root`, newest last."""
    paths = sorted(root.iterdir() if root.is_dir() else [], key=lambda path: path.lstat().st_mtime)
    return [
        _summary(Run(path))
        for path in paths
        if not path.is_symlink() and not path.name.startswith(".") and (path / "config.yaml").is_file()
    ]


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
    best = _number(last.get("best_score", last.get("champion")))
    return {
        "name": run.name,
        "path": str(run.path),
        "state": state,
        "step": int(_number(last.get("step")) or 0),
        "steps": _number(metadata.get("steps")),
        "best": best,
        "bytes": sum(_size(file) for file in run.path.rglob("*")),
    }


def state_of(run: Run, metadata: dict[str, Any]) -> str:
    """The status in run.json; `killed` when its process died without a word."""
    status = str(metadata.get("status", "unknown"))
    return "killed" if status in ("running", "unknown") and dead_holder(run.path) else status


def _size(path: Path) -> int:
    """Bytes of a file; a file that a training run has just replaced counts nothing."""
    try:
        found = path.lstat()
        return found.st_size if stat.S_ISREG(found.st_mode) else 0
    except FileNotFoundError:
        return 0


def _number(value: Any) -> int | float | None:
    """What a log or run.json gives as a number; None for anything else that stands there."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63
    return value if known else None
