"""What is written down while a run trains: metrics, the trainer's further records, and memory, a line per step each."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from eigen2.algorithms.contract import Trainer
from eigen2.harness.console import TrainingConsole
from eigen2.harness.journal import Journal, read_log
from eigen2.harness.run import Run
from eigen2.memory.pictures import account
from eigen2.memory.profiler import Profiler
from eigen2.memory.verdict import assess

KEPT = 2_000
"""Records that an account on the console looks back on."""


class Recorder:
    """Hears of every phase through `progress`, which exists before there is a run, and of every step.

    `verbose` is the number of steps between accounts of memory on the console; 0 for none.
    """

    def __init__(self, screen: TrainingConsole, verbose: int = 0) -> None:
        self.screen, self._verbose = screen, verbose
        self.heard: Callable[[str], None] = lambda phase: None
        """Called at every sign of progress, with its phase."""
        self.tracked: Callable[[], None] = lambda: None
        """Called when a line was added to the metrics."""
        self._profiler: Profiler | None = None
        self._recent: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def progress(self, phase: str, done: int, total: int) -> None:
        self.heard(phase)
        self.screen.phase(phase, done, total)
        if self._profiler is not None:
            self._profiler.phase(phase, done, total)

    def begin(
        self, run: Run, trainer: Trainer, journal: Journal, step: int, saving: Callable[[], dict[str, int]]
    ) -> None:
        """A run starts, or resumes after `step`; `saving` gives the bytes of the checkpoint in flight."""
        self._run, self._trainer, self._journal = run, trainer, journal
        self.screen.begin(run.name, trainer, step)
        self._profiler = Profiler(
            lambda: {**trainer.owners(), **saving(), **run.upload_owners()}, trainer.filling, "eigen2.harness"
        )

    def stepped(self, step: int, metrics: dict[str, float]) -> None:
        self.screen.stepped(step, metrics)
        self._journal.append("metrics", {"step": step, **metrics})
        self.tracked()
        for name, records in self._trainer.take_records().items():
            for record in records:
                if name == "events":
                    self.screen.say(str(record["message"]))
                    self._journal.event(**record)
                else:
                    self._journal.append(name, record)
        for sentence in self._run.upload_news():
            self._journal.event("cloud", sentence)
        self._remember(step)

    def saved(self) -> None:
        """A checkpoint was taken: what that costs is a phase of its own, in the record of the next step."""
        if self._profiler is not None:
            self._profiler.closed("checkpoint")

    def grown(self, most: int) -> str:
        """What has grown, for people: of a run that leaks its verdict, else the owner that grew most; `most` is what
        this process had at its peak."""
        found = assess(read_log(self._run.log("memory")))
        if found.leak:
            return found.sentence
        return "" if self._profiler is None else self._profiler.grown(most)

    def end(self) -> None:
        if self._profiler is not None:
            self._profiler.close()
            self._profiler = None

    def _remember(self, step: int) -> None:
        assert self._profiler is not None
        shown = self._verbose > 0 and step % self._verbose == 0
        moment = {"step": step, "time": round(time.time(), 3), "seconds": round(self.screen.seconds, 3)}
        record = moment | self._profiler.record(step, everything=shown)
        self._journal.append("memory", record)
        if self._verbose:
            self._recent.append(record)
        if shown:
            for line in account(list(self._recent)):
                self.screen.say(line)
