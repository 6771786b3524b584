"""No progress for too long: is it stuck, and where?

Time is counted in looks, so that a process that was stopped, or a machine that slept, is not taken for a stall.
"""

from collections.abc import Callable
from time import monotonic

LOOKS = 8
"""Looks in the time after which it is a stall."""


class Watchdog:
    """`heard` at every sign of progress, from the thread that works; `look` from another."""

    def __init__(
        self, seconds: float, stalled: Callable[[str, float], None], clock: Callable[[], float] = monotonic
    ) -> None:
        """`stalled(phase, seconds)` is called once, and again whenever the silence has doubled; 0 seconds: never."""
        self.seconds, self._stalled, self._clock = seconds, stalled, clock
        self.phase = ""
        self._signs = self._seen = 0
        self._silence, self._patience = 0.0, seconds
        self._last = clock()

    def heard(self, phase: str) -> None:
        self.phase = phase
        self._signs += 1

    def look(self) -> float:
        """-> seconds after which to look again."""
        if not self.seconds:
            return float("inf")
        pause = self.seconds / LOOKS
        now = self._clock()
        passed, self._last = min(now - self._last, 2 * pause), now
        if self._signs != self._seen:
            self._seen, self._silence, self._patience = self._signs, 0.0, self.seconds
        else:
            self._silence += passed
        if self._silence >= self._patience:
            self._patience = 2 * self._silence
            self._stalled(self.phase, self._silence)
        return pause
