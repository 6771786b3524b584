"""Time that looking at memory may take, as a share of the time that passes.

A look is charged with the CPU time of its thread: that it waits while other threads and processes work costs nothing.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Clock = Callable[[], float]


class Budget:
    """`share` of the time so far plus `allowance` seconds; the next look is taken to cost what the last one did."""

    def __init__(
        self, share: float, guess: float, allowance: float = 0.0, *,
        clock: Clock = time.perf_counter, cost: Clock = time.thread_time,
    ) -> None:  # fmt: skip
        self.share, self.allowance, self.last, self.spent = share, allowance, guess, 0.0
        self._clock, self._cost, self._began = clock, cost, clock()

    @property
    def allows(self) -> bool:
        return self.spent + self.last <= self.share * (self._clock() - self._began) + self.allowance

    @contextmanager
    def paying(self) -> Iterator[None]:
        began = self._cost()
        try:
            yield
        finally:
            self.last = self._cost() - began
            self.spent += self.last
