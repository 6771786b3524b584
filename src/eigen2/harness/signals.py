"""Turning signals into a stop in good order.

The first SIGTERM, SIGINT, SIGUSR1 or SIGUSR2 asks for a stop: the step in progress may finish within the grace
period, after which it is dropped by raising `StepDropped` in the main thread. A second SIGINT exits at once.
Another thread that sees a reason to stop drops the step without grace.
"""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


class StepDropped(BaseException):
    """The grace period ended before the step did. Derives from BaseException so that no library swallows it."""


class StopSignals:
    """Context in which stop signals are noted instead of killing the process."""

    def __init__(self, grace_seconds: float) -> None:
        self.grace_seconds = grace_seconds
        self.received: str | None = None
        """What asked for a stop."""
        self._in_step = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (*STOPS, signal.SIGALRM):
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def step_begins(self) -> None:
        self._in_step = True

    def step_ends(self) -> None:
        self._in_step = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    @property
    def in_step(self) -> bool:
        return self._in_step

    def drop(self, reason: str) -> None:
        """From another thread: stop, and drop the step in progress. To be called again if the step goes on: code that
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
                os._exit(75)
            return
        self.received = signal.Signals(number).name
        signal.setitimer(signal.ITIMER_REAL, max(self.grace_seconds, 1e-3))
