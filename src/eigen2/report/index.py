"""The runs below a root, for a page that asks again and again."""

import threading
import time
from pathlib import Path
from typing import Any

from eigen2.harness.listing import list_runs

FRESH_SECONDS = 2.0
"""For so long an answer is given again."""


class RunIndex:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._known: list[dict[str, Any]] = []
        self._until = 0.0

    def list(self) -> list[dict[str, Any]]:
        """Like `eigen2 runs --json`, with the seconds since a run last changed."""
        with self._lock:
            if time.monotonic() >= self._until:
                began = time.monotonic()
                self._known = [run | {"age": _age(Path(run["path"]))} for run in list_runs(self.root)]
                # A slow disk is asked less often.
                self._until = time.monotonic() + max(FRESH_SECONDS, 4 * (time.monotonic() - began))
            return self._known

    def path(self, name: str) -> Path | None:
        """A run by its name: looked up among those that are there, never put together."""
        for path in self.root.iterdir() if self.root.is_dir() else ():
            if path.name == name and not path.is_symlink() and (path / "config.yaml").is_file():
                return path
        return None


def _age(path: Path) -> float | None:
    newest = 0.0
    for name in ("metrics.jsonl", "run.json", "evaluations.jsonl"):
        try:
            newest = max(newest, (path / name).lstat().st_mtime)
        except OSError:
            continue
    return max(0.0, time.time() - newest) if newest else None
