"""A thread beside the run that acts in time: before memory is used up, and when there is no more progress.

Short of memory, the trainer drops its caches at its next sign of progress; when memory is nearly full, the step in
progress is dropped and the run stops at its last checkpoint. Where no step can be dropped - while a run is opened or
evaluated, or in code that is not Python's - the process ends by itself: that is better than being killed.
"""

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, NoReturn, Self

from rich.console import Console

from eigen2.algorithms.contract import Trainer
from eigen2.config import RunConfig
from eigen2.errors import Eigen2Error, ResourceError, StoppedEarly
from eigen2.harness.console import TrainingConsole
from eigen2.harness.journal import Journal
from eigen2.harness.metadata import end_facts
from eigen2.harness.phase_file import EVERY_SECONDS, PhaseFile
from eigen2.harness.run import Run
from eigen2.harness.signals import StopSignals
from eigen2.harness.stacks import all_stacks, main_line
from eigen2.harness.watchdog import Watchdog
from eigen2.memory.guard import LAST, Guard, Use, give_back, own_bytes, trim
from eigen2.memory.words import size_words

GUARD = "the memory guard"
SOON = 0.05
"""Seconds in which a step in Python ends after it was dropped."""
AGAIN = 2.0
"""Seconds after which a step that was dropped and still runs is dropped again."""


class Watch:
    """Context that lasts as long as the run works; `measure` gives the use of every limit of memory."""

    def __init__(
        self,
        settings: RunConfig,
        signals: StopSignals,
        screen: TrainingConsole,
        measure: Callable[[], list[Use]] | None = None,
    ) -> None:
        self._signals, self._screen, self._abort = signals, screen, settings.stall_abort
        self._guard = Guard(self._short, self._full, measure)
        self._watchdog = Watchdog(60.0 * settings.stall_minutes, self._stalled)
        self._stage: Literal["opening", "training", "stopping", "evaluating"] = "opening"
        self._run: Run | None = None
        self._trainer: Trainer | None = None
        self._journal: Journal | None = None
        self._wanted: Use | None = None
        self._dropped = self._deadline = math.inf
        self.short = False
        """Whether memory has been short: from then on every step is saved."""
        self._found: Use | None = None
        self._most = 0
        """Memory of this process when it was full."""
        self._phase_file = PhaseFile()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._watchdog.heard("opening")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        self._phase_file.remove()

    # From the thread that works

    def heard(self, phase: str) -> None:
        """A sign of progress."""
        self._watchdog.heard(phase)
        if self._wanted is not None and self._trainer is not None:
            self._make_room(self._trainer, self._wanted)

    def stepped(self) -> None:
        """A step has ended."""
        self._guard.border()
        self.heard("checkpoint")

    def trains(self, run: Run, trainer: Trainer, journal: Journal) -> None:
        self._run, self._trainer, self._journal, self._stage = run, trainer, journal, "training"
        self.heard("checkpoint")

    def stops(self) -> None:
        """From here on the run saves and uploads what there is, and ends; nothing more is dropped."""
        self._stage, self._trainer = "stopping", None
        self.heard("end")

    def leaves(self) -> None:
        """The journal is about to be closed."""
        self._stage, self._trainer, self._journal = "stopping", None, None

    def evaluates(self) -> None:
        self._stage = "evaluating"
        self.heard("evaluation")

    def reason(self, grown: Callable[[int], str]) -> str:
        """What stopped the run; `grown` says what has grown, given the most memory that this process had."""
        found, received = self._found, str(self._signals.received)
        if found is None or received != GUARD:
            return received
        reason = f"{received}, {found.words()}: {grown(self._most)}"
        self._tell("memory_full", f"Stopped by {reason}.", share=round(found.share, 4), bytes=found.own)
        return reason

    @property
    def hint(self) -> str:
        """What to do about it."""
        if self._signals.received != GUARD:
            return ""
        return "; give it more memory, or start a smaller run: `eigen2 plan` shows what settings need"

    def has_room(self, size: int) -> bool:
        """Whether memory has room for a copy of so many bytes."""
        return self._guard.has_room(size)

    def _make_room(self, trainer: Trainer, found: Use) -> None:
        self._wanted, before = None, own_bytes()
        trainer.drop_caches()
        give_back()
        gained = max(0, before - own_bytes())
        self._tell(
            "memory_short",
            f"Memory is short, {found.words()}: caches are dropped, which freed {size_words(gained)}, less is evaluated "
            "at a time, and every step is saved; results stay the same.",
            share=round(found.share, 4),
            gained_bytes=gained,
        )

    # From the thread that watches

    def _watch(self) -> None:
        pause = 0.0
        while not self._end.wait(pause):
            pause = min(self._guard.look(), self._watchdog.look(), EVERY_SECONDS)
            if self._run is not None and self._stage in ("training", "evaluating"):
                self._phase_file.note(self._run, self._watchdog.phase)
            if time.monotonic() >= self._deadline and self._signals.in_step:
                self._exit(
                    f"No progress in the {self._watchdog.phase} phase, and the step could not be dropped.",
                    StoppedEarly.exit_code,
                )

    def _short(self, found: Use) -> None:
        trim()
        self.short, self._wanted = True, found

    def _full(self, found: Use) -> None:
        if self._stage == "stopping":
            return
        if self._stage == "opening":
            self._exit(
                f"Memory is full, {found.words()}, before the run could begin; `eigen2 plan` says what it needs.",
                ResourceError.exit_code,
            )
        if self._stage == "evaluating":
            self._exit(
                f"Memory is full, {found.words()}, while the champion is evaluated; training is done and saved, `eigen2 train "
                "--resume` with more memory evaluates again.",
                StoppedEarly.exit_code,
            )
        now = time.monotonic()
        if self._found is None:
            self._found, self._most = found, own_bytes()
            self._signals.drop(GUARD)
            self._dropped = now
        elif found.share >= LAST and self._signals.in_step and now - self._dropped > SOON:
            self._exit(
                f"Stopped by the memory guard, {found.words()}; the {self._watchdog.phase} phase could not be stopped.",
                StoppedEarly.exit_code,
            )
        elif now - self._dropped > AGAIN:
            self._signals.drop(GUARD)
            self._dropped = now

    def _stalled(self, phase: str, seconds: float) -> None:
        where, waited = main_line(), _duration(seconds)
        stacks = "" if self._run is None else f" All stacks are in {self._run.log('events')}."
        self._tell(
            "stall",
            f"No progress in the {phase} phase for {waited}: the main thread is at {where}.{stacks}",
            phase=phase,
            seconds=round(seconds, 3),
            line=where,
            stacks=all_stacks(),
        )
        if not self._abort or self._stage == "stopping":
            return
        if not self._signals.in_step:
            self._exit(f"No progress in the {phase} phase for {waited}, at {where}.", StoppedEarly.exit_code)
        self._signals.drop(f"the watchdog (no progress in the {phase} phase for {waited}, at {where})")
        self._deadline = min(self._deadline, time.monotonic() + max(1.0, self._signals.grace_seconds))

    def _tell(self, kind: str, message: str, **facts: Any) -> None:
        if self._journal is not None:
            self._journal.event(kind, message, **facts)
        self._screen.say(message)

    def _exit(self, sentence: str, code: int) -> NoReturn:
        """The main thread does not react: say what is to be said, and end the process."""
        if self._run is not None:
            last = (
                ""
                if "--resume" in sentence
                else f" `eigen2 train --resume {self._run.path}` continues from the last checkpoint."
            )
            sentence += last
            # A disk that fails, or a run that is gone, does not keep the process from ending.
            with suppress(OSError, Eigen2Error):
                if self._journal is not None:
                    self._journal.event("exit", sentence, code=code)
                self._run.note(**end_facts("stopped", sentence, code))
        console = Console(stderr=True)
        console.show_cursor()
        console.print(f"eigen2: {sentence}", highlight=False, markup=False, soft_wrap=True)
        os._exit(code)


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.1f} s"
