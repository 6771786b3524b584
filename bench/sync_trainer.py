"""The trainer of bench/sync_cost.py: `eigen2 train` in this process, and the CPU time of each of its threads.

    python bench/sync_trainer.py FACTS.json [--alternate] train key=value ...

Threads that end are asked for their own CPU time as they do; those alive at the end, and those that no Python code
started (the client library's), are read from /proc. With --alternate the uploader hears of one checkpoint in each two,
chosen by chance: generations that upload and generations that do not, side by side in one process.
"""

import itertools
import json
import os
import secrets
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigen2.cli import main
from eigen2.cloud.uploader import Uploader
from eigen2.harness.console import TrainingConsole

CLOUD = ("uploader", "transfer", "lease", "probe", "tokio", "pyo3-async")
"""How the names of threads begin that only a run with a cloud has."""


@dataclass(frozen=True)
class Moment:
    wall: float
    cpu: float
    """Of the process."""
    waited: float
    """Seconds that the training thread neither ran nor was ready to run: it waited for a disk, a lock or a network. A
    core that others use is not counted, so the figure means the same on a busy machine."""
    resident_mb: float
    uploads: bool
    """Whether the uploader heard of the checkpoint before this step."""


def moment(uploads: bool) -> Moment:
    ran, ready = (int(word) / 1e9 for word in Path("/proc/thread-self/schedstat").read_text().split()[:2])
    wall = time.monotonic()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return Moment(wall, time.process_time(), wall - ran - ready, resident, uploads)


class Watch:
    """What is noted while the run goes on."""

    def __init__(self) -> None:
        self.ended: dict[str, float] = defaultdict(float)
        self.steps: list[Moment] = []
        """The ends of all steps."""
        self._lock = threading.Lock()
        self._heard = True

    def alternate(self) -> None:
        committed, coming = Uploader.committed, list[bool]()

        def perhaps(uploader: Uploader) -> None:
            if not coming:
                first = bool(secrets.randbits(1))
                coming.extend((first, not first))
            self._heard = coming.pop()
            if self._heard:
                committed(uploader)

        Uploader.committed = perhaps  # type: ignore[method-assign, assignment]

    def install(self) -> None:
        run, stepped = threading.Thread.run, TrainingConsole.stepped

        def timed_run(thread: threading.Thread) -> None:
            try:
                run(thread)
            finally:
                with self._lock:
                    self.ended[kind(thread.name)] += time.thread_time()

        def noted(screen: TrainingConsole, step: int, metrics: Mapping[str, float]) -> None:
            stepped(screen, step, metrics)
            self.steps.append(moment(self._heard))

        threading.Thread.run = timed_run  # type: ignore[method-assign, assignment]
        TrainingConsole.stepped = noted  # type: ignore[method-assign, assignment]

    def threads(self) -> dict[str, float]:
        """CPU seconds of all threads there were, by the kind of their names."""
        names = {thread.native_id: thread.name for thread in threading.enumerate()}
        found = defaultdict(float, self.ended)
        for task in Path("/proc/self/task").iterdir():
            try:
                nanoseconds = int((task / "schedstat").read_text().split()[0])
                name = names.get(int(task.name)) or (task / "comm").read_text().strip()
            except FileNotFoundError:
                continue
            found[kind(name)] += nanoseconds / 1e9
        return dict(found)


def kind(name: str) -> str:
    return name.rstrip("0123456789").rstrip("-_ ")


def facts(watch: Watch) -> dict[str, Any]:
    total, threads = time.process_time(), watch.threads()
    begun, over, early = watch.steps[0], watch.steps[-1], watch.steps[len(watch.steps) // 5]
    return {
        "cpu": total,
        "training_cpu": total - begun.cpu,
        "training_wall": over.wall - begun.wall,
        "waited": over.waited - begun.waited,
        "cloud_cpu": sum(seconds for name, seconds in threads.items() if name.startswith(CLOUD)),
        "steps": len(watch.steps) - 1,
        "grown_mb": over.resident_mb - early.resident_mb,
        "each": [
            [after.cpu - before.cpu, after.uploads] for before, after in itertools.pairwise(watch.steps)
        ],
        "threads": {name: round(seconds, 4) for name, seconds in sorted(threads.items())},
    }


if __name__ == "__main__":
    into = Path(sys.argv[1])
    rest = sys.argv[2:]
    watch = Watch()
    watch.install()
    if rest[0] == "--alternate":
        watch.alternate()
        rest = rest[1:]
    sys.argv = ["eigen2", *rest]
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise
    into.write_text(json.dumps(facts(watch)))
