"""One save at a time, beside the training loop, whose failures come back to the caller."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

Result = TypeVar("Result")


class BackgroundSaver(Generic[Result]):
    """Runs one job at a time on a thread of its own.

    There is one slot: `submit` waits until the previous job has ended, so a slow disk slows training down but
    never piles up snapshots in memory. What a job raises is raised by the next `submit`, `wait` or `close`, once,
    unchanged (an OSError keeps its errno). When `submit` raises, the new job was not started.

    The job must own its data (`state.freeze`, a replay snapshot): training goes on while it runs.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="save")
        self._job: Future[Result] | None = None

    @property
    def busy(self) -> bool:
        """True while a job is running."""
        return self._job is not None and not self._job.done()

    def submit(self, job: Callable[[], Result]) -> Result | None:
        """Start `job`; returns the result of the job before it, if that was not collected yet."""
        previous = self.wait()
        self._job = self._thread.submit(job)
        return previous

    def wait(self) -> Result | None:
        """Wait for the job in flight and return its result; None when there is none to collect."""
        job, self._job = self._job, None
        return None if job is None else job.result()

    def close(self) -> Result | None:
        """Wait for the job in flight and end the thread."""
        try:
            return self.wait()
        finally:
            self._thread.shutdown()

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
