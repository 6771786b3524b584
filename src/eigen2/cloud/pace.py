"""How fast: a bandwidth limit, pauses between attempts, and several transfers side by side."""

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from eigen2.cloud.bucket import Unreachable

Item = TypeVar("Item")
Result = TypeVar("Result")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class Abandoned(Exception):
    """The transfer is not wanted any more."""


class Backoff:
    """Pauses between attempts: each up to twice as long as the one before, at most a minute, with jitter, so that many
    clients of one server do not come back at the same instant."""

    def __init__(self) -> None:
        self.failures = 0

    def pause(self) -> float:
        """Seconds to wait after another failure."""
        longest: float = min(FIRST_PAUSE * 2.0 ** min(self.failures, 10), LONGEST_PAUSE)
        self.failures += 1
        return longest * (0.5 + secrets.randbelow(1001) / 2000)

    def succeeded(self) -> None:
        self.failures = 0


class Throttle:
    """At most `mbps` megabits a second on average, over all threads; None: no limit. `stop` ends all waiting."""

    def __init__(self, mbps: float | None, stop: threading.Event) -> None:
        self.bytes_per_second = None if mbps is None else mbps * 1e6 / 8
        self.stop = stop
        self._free_at = time.monotonic()
        self._lock = threading.Lock()

    def spend(self, count: int) -> None:
        """Wait until `count` more bytes may be sent."""
        if self.bytes_per_second is not None:
            with self._lock:
                start = max(self._free_at, time.monotonic())
                self._free_at = start + count / self.bytes_per_second
            self.stop.wait(max(0.0, start - time.monotonic()))
        if self.stop.is_set():
            raise Abandoned


def with_timeout(seconds: float, work: Callable[[], Result], where: str) -> Result:
    """What `work` returns or raises; Unreachable when it takes longer. It then continues in a thread that nobody waits for."""
    outcome: Future[Result] = Future()

    def serve() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            outcome.set_exception(error)

    threading.Thread(target=serve, name="probe", daemon=True).start()
    try:
        return outcome.result(seconds)
    except TimeoutError:
        raise Unreachable(f"{where} did not answer within {seconds:.0f} s.") from None


def in_parallel(
    items: Sequence[Item], work: Callable[[Item], None], threads: int, stop: threading.Event,
    used: Callable[[float], None] = lambda seconds: None,
) -> None:  # fmt: skip
    """`work` on every item, `threads` at a time; after the first failure, which is raised, no new item is begun.

    `used` is told the CPU seconds of each thread.

    The threads do not keep the process alive: a transfer that hangs never holds up the end of the program.
    """
    waiting, lock, threads = iter(items), threading.Lock(), min(threads, len(items))
    failures: list[BaseException] = []
    finished = threading.Semaphore(0)

    def take() -> Item | None:
        with lock:
            return None if failures or stop.is_set() else next(waiting, None)

    def serve() -> None:
        try:
            while (item := take()) is not None:
                work(item)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failures.append(error)
        finally:
            used(time.thread_time())
            finished.release()

    for number in range(threads):
        threading.Thread(target=serve, name=f"transfer-{number}", daemon=True).start()
    for _ in range(threads):
        while not finished.acquire(timeout=0.5):
            if stop.is_set():
                raise Abandoned
    if failures:
        raise failures[0]
    if stop.is_set():
        raise Abandoned
