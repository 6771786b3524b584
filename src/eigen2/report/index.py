"""The runs below a root, for a page that asks again and again.

What a run takes on disk is the sum of thousands of files: it is measured on a thread of its own, and a page that is asked
for before that is known shows nothing in its place.
"""

import threading
import time
from pathlib import Path
from typing import Any

from eigen2.harness.listing import disk_bytes, list_runs, run_paths

FRESH_SECONDS = 2.0
"""For so long an answer is given again."""
MEASURED_SECONDS = 30.0
"""For so long a size is not measured again."""


class RunIndex:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._known: list[dict[str, Any]] = []
        self._until = 0.0
        self._sizes: dict[Path, int] = {}
        self._measuring: threading.Thread | None = None
        self._measured = 0.0

    def list(self) -> list[dict[str, Any]]:
        """Like `eigen2 runs --json`; `bytes` is None while it is being measured."""
        with self._lock:
            self._measure()
            if time.monotonic() >= self._until:
                began = time.monotonic()
                self._known = list_runs(self.root, self._sizes.get)
                # A slow disk is asked less often.
                self._until = time.monotonic() + max(FRESH_SECONDS, 4 * (time.monotonic() - began))
            return self._known

    def path(self, name: str) -> Path | None:
        """A run by its name: looked up among those that are there, never put together."""
        for path in self.root.iterdir() if self.root.is_dir() else ():
            if path.name == name and not path.is_symlink() and (path / "config.yaml").is_file():
                return path
        return None

    def wait_measured(self) -> None:
        """Until the sizes that are being measured are known."""
        if self._measuring is not None:
            self._measuring.join()

    def _measure(self) -> None:
        """Begin to, unless that is being done or was done just now."""
        if self._measuring is not None and self._measuring.is_alive():
            return
        if self._measured and time.monotonic() - self._measured < MEASURED_SECONDS:
            return
        self._measured = time.monotonic()
        self._measuring = threading.Thread(target=self._measure_all, name="sizes", daemon=True)
        self._measuring.start()

    def _measure_all(self) -> None:
        self._sizes = {path: disk_bytes(path) for path in run_paths(self.root)}
        self._measured, self._until = time.monotonic(), 0.0
