"""Claims about stored state that a user can check: fingerprint, verify-resume, the list of runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from eigen2.errors import ConfigError, DamagedStateError
from eigen2.runs.build import build
from eigen2.runs.directory import RunDirectory
from eigen2.runs.journal import read_log
from eigen2.runs.lock import dead_holder
from eigen2.runs.loop import restore
from eigen2.runs.metadata import read_metadata
from eigen2.store.checkpoints import Checkpoint, Checkpoints
from eigen2.store.state import fingerprint

VOLATILE = ("ram_bytes",)
"""Facts in a replay's manifest that describe the process, not the contents."""


def run_fingerprint(run: RunDirectory) -> dict[str, Any]:
    """One hash over the training state and the replay of the newest good checkpoint."""
    checkpoint = Checkpoints(run.path).newest_good().checkpoint
    if checkpoint is None:
        raise ConfigError(f"{run.path} has no checkpoint yet.")
    return {"step": checkpoint.manifest.step, "fingerprint": _fingerprint(checkpoint)}


def _fingerprint(checkpoint: Checkpoint) -> str:
    replay = checkpoint.manifest.replay or {}
    contents = {key: value for key, value in replay.items() if key not in VOLATILE}
    return fingerprint({"state": checkpoint.state(), "replay": contents})


@dataclass(frozen=True)
class Proof:
    """Outcome of running the steps between two checkpoints again."""

    first: int
    last: int
    differing: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.differing

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "from_step": self.first,
            "to_step": self.last,
            "differing": list(self.differing),
        }


def verify_resume(run: RunDirectory, console: Console) -> Proof:
    """Resume from `previous` in this process, run up to `latest`, and compare every tensor and the replay."""
    checkpoints = Checkpoints(run.path)
    missing = {"previous", "latest"} - set(checkpoints.names())
    if missing:
        raise ConfigError(f"{run.path} has no {' and no '.join(sorted(missing))} checkpoint to compare yet.")
    before, after = checkpoints.load("previous"), checkpoints.load("latest")
    if before.manifest.replay_step != before.manifest.step:
        raise ConfigError(
            "The previous checkpoint has no replay of its own (replay.every > 1): nothing to prove."
        )
    with build(run.read_config()) as built:
        restore(built, before, console)
        for _ in range(before.manifest.step, after.manifest.step):
            built.trainer.step()
        again = built.trainer.state_dict()
        replay = built.trainer.replay.snapshot().manifest
    stored = after.state()
    differing = [
        name for name in sorted(stored.keys() | again.keys())
        if fingerprint({name: stored.get(name)}) != fingerprint({name: again.get(name)})
    ]  # fmt: skip
    if after.manifest.replay_step == after.manifest.step:
        wanted = after.manifest.replay or {}
        keys = sorted((wanted.keys() | replay.keys()) - set(VOLATILE))
        differing += [f"replay.{key}" for key in keys if wanted.get(key) != _as_json(replay.get(key))]
    return Proof(before.manifest.step, after.manifest.step, tuple(differing))


def _as_json(value: Any) -> Any:
    """What a value is after a trip through a manifest: tuples become lists."""
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return value


def list_runs(root: Path) -> list[dict[str, Any]]:
    """Every run below `root`, newest last."""
    found = []
    for path in sorted(root.iterdir() if root.is_dir() else [], key=lambda p: p.lstat().st_mtime):
        if path.is_symlink() or path.name.startswith(".") or not (path / "config.yaml").is_file():
            continue
        found.append(_summary(RunDirectory(path)))
    return found


def _summary(run: RunDirectory) -> dict[str, Any]:
    steps: int | None = None
    last: dict[str, Any] = {}
    try:
        state = _state(run)
        last = (read_log(run.log("metrics")) or [{}])[-1]
        steps = run.read_config().steps
    except (DamagedStateError, ValueError):
        # One damaged run must not hide the others.
        state = "damaged"
    return {
        "name": run.name,
        "path": str(run.path),
        "state": state,
        "step": int(last.get("step", 0)),
        "steps": steps,
        "best": last.get("champion"),
        "bytes": sum(_size(file) for file in run.path.rglob("*")),
    }


def _state(run: RunDirectory) -> str:
    """The status in run.json; `killed` when its process died without a word."""
    status = str(read_metadata(run).get("status", "unknown"))
    return "killed" if status in ("running", "unknown") and dead_holder(run.path) else status


def _size(path: Path) -> int:
    """Bytes of a file; a file that a training run has just replaced counts nothing."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
