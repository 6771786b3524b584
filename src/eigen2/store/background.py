"""One save at a time, beside the training loop, whose failures come back to the caller."""

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

from eigen2.errors import ResourceError

Result = TypeVar("Result")
LOOKS_AFTER_SECONDS = 1.0
"""How often whoever waits makes sure that the thread still lives."""


class BackgroundSaver(Generic[Result]):
    """Runs one job at a time on a thread of its own.

    There is one slot: `submit` waits until the previous job has ended, so a slow disk slows training down but
    never piles up snapshots in memory. What a job raises is raised by the next `submit`, `wait` or `close`, once,
    unchanged (an OSError keeps its errno). When `submit` raises, the new job was not started.

    The job must own its data (`state.freeze`, a replay snapshot): training continues while it runs.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job[Result] | None] = queue.SimpleQueue()
        self._job: _Job[Result] | None = None
        # Started now: a thread that finds no memory for itself leaves its starter waiting for ever.
        self._thread = self._started()

    @property
    def busy(self) -> bool:
        """True while a job is running."""
        return self._job is not None and self._job.ended.locked()

    def submit(self, job: Callable[[], Result]) -> Result | None:
        """Start `job`; returns the result of the job before it, if that was not collected yet."""
        previous = self.wait()
        if not self._thread.is_alive():
            self._thread = self._started()
        new = _Job(job)
        self._jobs.put(new)
        self._job = new
        return previous

    def wait(self) -> Result | None:
        """Wait for the job in flight and return its result; None when there is none to collect."""
        job = self._job
        if job is None:
            return None
        while not job.ended.acquire(timeout=LOOKS_AFTER_SECONDS):
            if not self._thread.is_alive() and job.ended.locked():
                self._job = None
                raise ResourceError("the thread that saves died, most likely for lack of memory")
        self._job = None
        return job.outcome()

    def close(self) -> Result | None:
        """Wait for the job in flight and end the thread."""
        try:
            return self.wait()
        finally:
            self._jobs.put(None)
            self._thread.join()

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=_work, args=(self._jobs,), name="save", daemon=True)
        thread.start()
        return thread

    def __enter__(self) -> "BackgroundSaver[Result]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            # The first error is the one to act on; the second must not hide it, nor get lost.
            error.add_note(f"the save in flight failed too: {failure!r}")


class _Job(Generic[Result]):
    """`ended` is locked until the job has run."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._result: Result | None = None
        self._error: BaseException | None = None
        self.ended = threading.Lock()
        self.ended.acquire()

    def run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised again where the job is waited for
            self._error = error
        finally:
            self.ended.release()

    def outcome(self) -> Result | None:
        if self._error is not None:
            raise self._error
        return self._result


def _work(jobs: "queue.SimpleQueue[_Job[Result] | None]") -> None:
    try:
        while (job := jobs.get()) is not None:
            job.run()
            # Not kept while waiting for the next one: it holds a copy of the training state.
            del job
    except MemoryError:
        # Not even the call of the job could be made; whoever waits finds the thread gone.
        return
