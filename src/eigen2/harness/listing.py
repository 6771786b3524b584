"""Which run is which: every run below a directory and how it stands, from files alone."""

import math
import os
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from eigen2.errors import DamagedStateError
from eigen2.harness.journal import last_record
from eigen2.harness.lock import held
from eigen2.harness.run import Run
from eigen2.store.layout import check_layout

STATES = ("running", "done", "stopped", "crashed", "damaged", "unknown")
LONGEST_WORD = 200
"""Characters of a stranger's word that are listed."""


def list_runs(root: Path, measure: Callable[[Path], int | None] | None = None) -> list[dict[str, Any]]:
    """Every run below `root`, newest last; `measure` says how large one is, for whoever knows that already."""
    return [summary(Run(path), measure) for path in run_paths(root)]


def run_paths(root: Path) -> list[Path]:
    """Directories of the runs below `root`, the one that changed last at the end."""
    paths = sorted(root.iterdir() if root.is_dir() else [], key=_changed)
    return [path for path in paths if _is_run(path)]


def _is_run(path: Path) -> bool:
    try:
        return not path.is_symlink() and not path.name.startswith(".") and (path / "config.yaml").is_file()
    except OSError:
        # A directory that may not be read: whether it is a run is not known.
        return False


def _changed(path: Path) -> float:
    """When a run was changed last; one that was deleted meanwhile comes first, and is then no run."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def summary(run: Run, measure: Callable[[Path], int | None] | None = None) -> dict[str, Any]:
    """One run as `eigen2 runs --json` lists it."""
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
    return {
        "name": run.name,
        "path": str(run.path),
        "state": state,
        **numbers,
        "progress": _share(numbers["step"], numbers["steps"]),
        "bytes": (measure or disk_bytes)(run.path),
        **_origin(run, metadata),
        "host": _word(_newest(metadata).get("host")),
        "started": _word(metadata.get("started")),
        "age": _age(run),
        "reason": _word(metadata.get("reason")),
    }


def state_of(run: Run, metadata: Mapping[str, Any]) -> str:
    """One of STATES. What run.json says last stands, unless it says that a process works on the run and the lock says
    that none does: one that died without a word has crashed; where the lock was given back, or was left behind when the
    directory was copied, the run is stopped."""
    status = metadata.get("status")
    if status in ("done", "stopped"):
        return str(status)
    if status == "failed":
        return "crashed"
    if status not in ("running", None):
        return "damaged"
    holder = held(run.path)
    if holder == "dead":
        return "crashed"
    if holder == "here" or (holder == "elsewhere" and status == "running"):
        return "running"
    return "unknown" if status is None else "stopped"


def _origin(run: Run, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Algorithm, environment and seed; runs of earlier versions say them in their config alone."""
    found = {name: metadata.get(name) for name in ("alg", "env", "seed")}
    if None in found.values():
        config: Any = None
        with suppress(OSError, DamagedStateError):
            config = run.raw_config()
        known: Mapping[str, Any] = config if isinstance(config, dict) else {}
        presets = known.get("presets")
        named = presets if isinstance(presets, dict) else {}
        stored = {"alg": named.get("alg"), "env": named.get("env"), "seed": known.get("seed")}
        found = {name: stored[name] if value is None else value for name, value in found.items()}
    seed = found["seed"] if _is_number(found["seed"]) else None
    return {"alg": _word(found["alg"]), "env": _word(found["env"]), "seed": seed}


def _newest(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Facts about the process that worked on the run last."""
    resumes = metadata.get("resumes")
    last = resumes[-1] if isinstance(resumes, list) and resumes else None
    return last if isinstance(last, dict) else metadata


def _word(value: object) -> str | None:
    return value[:LONGEST_WORD] if isinstance(value, str) else None


def _share(step: Any, steps: Any) -> float | None:
    return min(1.0, max(0.0, step / steps)) if step is not None and steps else None


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63)


def _age(run: Run) -> float | None:
    """Seconds since the run changed last."""
    newest = 0.0
    for path in (run.log("metrics"), run.metadata_file, run.log("evaluations"), run.config_file):
        with suppress(OSError):
            newest = max(newest, path.lstat().st_mtime)
    return round(max(0.0, time.time() - newest), 1) if newest else None


def disk_bytes(directory: Path | str) -> int:
    """Of all files; one that a training run has just replaced, or that cannot be looked at, counts nothing."""
    found, below = 0, [os.fspath(directory)]
    while below:
        with suppress(OSError), os.scandir(below.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
                        continue
                    state = entry.stat(follow_symlinks=False)
                    found += state.st_size if stat.S_ISREG(state.st_mode) else 0
    return found
