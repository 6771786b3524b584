"""What a run is doing right now, as a small file beside it for whoever looks at the run; it goes when the process ends.

Nothing depends on it, so it is written without waiting for the disk, and a disk that refuses it is ignored. A run of a
few seconds has none.
"""

import json
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from eigen2.errors import Eigen2Error
from eigen2.harness.run import Run
from eigen2.store.durable import TEMPORARY
from eigen2.store.layout import PHASE

FIRST_SECONDS = 30.0
"""After the run began to work."""
EVERY_SECONDS = 2.0


class PhaseFile:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = clock() + FIRST_SECONDS
        self._written = ""
        self._path: Path | None = None

    def note(self, run: Run, phase: str) -> None:
        """Write it down if it is another one, and time has passed."""
        if self._clock() < self._next or phase == self._written:
            return
        self._next = self._clock() + EVERY_SECONDS
        temporary = run.path / f"{TEMPORARY}{secrets.token_hex(8)}"
        with suppress(OSError, Eigen2Error):
            run.check_place()
            try:
                temporary.write_text(
                    json.dumps({"phase": phase, "time": round(time.time(), 1)}), encoding="utf-8"
                )
                os.replace(temporary, run.path / PHASE)
                self._path, self._written = run.path / PHASE, phase
            finally:
                temporary.unlink(missing_ok=True)

    def remove(self) -> None:
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
