"""Which run is which: every run below a directory and how it stands, from files alone."""

from pathlib import Path
from typing import Any

from eigen2.errors import DamagedStateError
from eigen2.harness.journal import read_log
from eigen2.harness.lock import dead_holder
from eigen2.harness.run import Run


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
        metadata = run.metadata()
        state = state_of(run, metadata)
        last = (read_log(run.log("metrics")) or [{}])[-1]
    except (ValueError, DamagedStateError):
        # One damaged run must not hide the others.
        state = "damaged"
    return {
        "name": run.name,
        "path": str(run.path),
        "state": state,
        "step": int(last.get("step", 0)),
        "steps": metadata.get("steps"),
        "best": last.get("best_score", last.get("champion")),
        "bytes": sum(_size(file) for file in run.path.rglob("*")),
    }


def state_of(run: Run, metadata: dict[str, Any]) -> str:
    """The status in run.json; `killed` when its process died without a word."""
    status = str(metadata.get("status", "unknown"))
    return "killed" if status in ("running", "unknown") and dead_holder(run.path) else status


def _size(path: Path) -> int:
    """Bytes of a file; a file that a training run has just replaced counts nothing."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
