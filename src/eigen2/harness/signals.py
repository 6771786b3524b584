"""Turning signals into a stop in good order.

The first SIGTERM, SIGINT, SIGHUP, SIGUSR1 or SIGUSR2 asks for a stop: the step in progress may finish within the grace
period, after which it is dropped by raising `StepDropped` in the main thread. A second SIGINT exits at once.
Another thread that sees a reason to stop drops the step without grace. Before a run trains, and while it is evaluated at
its end, there is nothing to save: the work is interrupted at once, by `Interrupted`.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from eigen2.errors import StoppedEarly

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class StepDropped(BaseException):
    """The grace period ended before the step did. Derives from BaseException so that no library swallows it."""


class Interrupted(BaseException):
    """A stop was asked for where there is nothing to save."""


class StopSignals:
    """Context in which stop signals are noted instead of killing the process; unless `patient`, they interrupt the work."""

    def __init__(self, grace_seconds: float = 0.0, patient: bool = True, final: bool = False) -> None:
        """`final`: the process ends after it, and no later signal changes how."""
        self.grace_seconds, self._final = grace_seconds, final
        self.outlook = "before the run began; nothing is lost: start it again"
        """What is said about work that is interrupted now."""
        self._patient = patient
        self.received: str | None = None
        """What asked for a stop."""
        self.broken_off = False
        """Whether the work was interrupted."""
        self._in_step = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (*STOPS, signal.SIGALRM):
            # Whoever starts a run with nohup wants it to outlive the terminal.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, previous in self._previous.items():
            if not self._final or number == signal.SIGALRM:
                signal.signal(number, previous)
            elif number != signal.SIGINT:
                signal.signal(number, signal.SIG_IGN)
            elif self.received is None:
                signal.signal(number, previous)

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Inside, signals are noted, and whoever works there ends in good order."""
        before, self._patient = self._patient, True
        try:
            yield
        finally:
            self._patient = before

    def step_begins(self) -> None:
        self._in_step = True

    def step_ends(self) -> None:
        self._in_step = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    @property
    def in_step(self) -> bool:
        return self._in_step

    def drop(self, reason: str) -> None:
        """From another thread: stop, and drop the step in progress. To be called again if the step continues: code that
        is not Python's is not interrupted, and an exception may get lost."""
        self.received = self.received or reason
        number = threading.main_thread().ident
        assert number is not None
        signal.pthread_kill(number, signal.SIGALRM)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGALRM:
            if self._in_step:
                raise StepDropped
            return
        if self.received is not None:
            if number == signal.SIGINT:
                _exit_at_once(self.received)
            return
        self.received = signal.Signals(number).name
        if not self._patient:
            self.broken_off = True
            raise Interrupted
        signal.setitimer(signal.ITIMER_REAL, max(self.grace_seconds, 1e-3))


def _exit_at_once(first: str) -> NoReturn:
    """Whatever the process is doing: only a sentence is written, bypassing Python's buffers."""
    sentence = f"eigen2: Stopped by {first} and then SIGINT, at once; `eigen2 train --resume` continues from the last saved step.\n"
    with suppress(OSError):
        os.write(2, sentence.encode())
    os._exit(StoppedEarly.exit_code)


@contextmanager
def stoppable(final: bool = False) -> Iterator[StopSignals]:
    """From here on a signal ends the command in good order: interrupted work ends with a sentence."""
    with StopSignals(patient=False, final=final) as signals:
        try:
            yield signals
        except (Interrupted, Exception) as error:
            # A library that is interrupted while it cleans up may raise an error of its own instead.
            if not signals.broken_off:
                raise
            raise StoppedEarly(f"Stopped by {signals.received} {signals.outlook}.") from error
