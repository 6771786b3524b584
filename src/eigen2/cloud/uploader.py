"""Uploads beside the training: a thread that keeps the bucket up to date and never lets training wait.

It wakes when a checkpoint is committed, sends what is newest, and says one line per batch. When the server cannot be
reached it says so once, tries again with growing pauses, and says once when it is back. What it holds in memory is
names, and a few pieces of the files on their way.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from eigen2.cloud.bucket import NotThere, Refused, Unreachable
from eigen2.cloud.files import PERIOD
from eigen2.cloud.lease import Lease, LeaseLost
from eigen2.cloud.mirror import THREADS, Mirror
from eigen2.cloud.pace import Abandoned, Backoff, with_timeout
from eigen2.cloud.pieces import PIECE
from eigen2.cloud.words import size_words
from eigen2.errors import ConfigError, DamagedStateError, RunGone

FAILURES = (Unreachable, Refused, NotThere, DamagedStateError, OSError)
"""What another attempt may overcome."""
SHARE = 0.015
"""Of one core, what uploading takes at most, averaged over a batch and the pause after it."""
NEWS = 100
"""Changes of state that wait for the journal at most."""
RELEASE_SECONDS = 10.0
OFFLINE_PATIENCE = 30.0
"""Seconds that a drain waits for a server that is out of reach."""


@dataclass(frozen=True)
class Left:
    """What is still only here when uploading ends."""

    objects: int
    bytes: int
    reason: str

    def words(self) -> str:
        what = f"{self.objects} objects ({size_words(self.bytes)})" if self.objects else "the newest files"
        return f"{what} are only here: {self.reason}"


class Uploader:
    """One run's uploads.

    `prepare` makes sure that the bucket's run is this one and takes the lease; `fetch` brings what a resume from the
    bucket left there. Both are tried again, in the uploader's thread, until the server can be reached.
    """

    def __init__(
        self, mirror: Mirror, lease: Lease, prepare: Callable[[], None], fetch: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.mirror, self.lease, self._say = mirror, lease, say
        self._prepare, self._fetch = prepare, fetch
        self._begun = False
        self._wake = threading.Condition()
        self._committed = 0
        self._sent = -1
        self._final = self._complete = False
        self._offline: str | None = None
        """Why nothing can be uploaded at the moment."""
        self._since = time.monotonic()
        self._news: deque[str] = deque(maxlen=NEWS)
        self._ended: str | None = None
        self._told: set[str] = set()
        self._withheld: tuple[str, ...] = ()
        """What the last batch left here because it is damaged."""
        self._thread = threading.Thread(target=self._serve, name="uploader", daemon=True)

    @property
    def due_bytes(self) -> int:
        """What was sent, and what the newest checkpoints still have to send."""
        return self.mirror.image.sent_bytes + self.mirror.waiting()[1]

    @property
    def nbytes(self) -> int:
        """Upper bound of the pieces of files that are in memory, on their way."""
        progress = self.mirror.progress
        return max(0, min(progress.total - progress.done, THREADS * PIECE))

    def begin(self) -> None:
        """Prepare; done here, what is wrong stops the run before it trains."""
        self._prepare()
        self._begun = True

    def begin_offline(self, reason: str) -> None:
        """The server was out of reach at the start; that has been reported."""
        self._offline = reason
        self._news.append(reason)

    def start(self) -> None:
        self._thread.start()

    def committed(self) -> None:
        """There is a new checkpoint; what is queued and older is superseded."""
        with self._wake:
            self._committed += 1
            self._wake.notify_all()

    def take_news(self) -> list[str]:
        """Changes of state since the last call, for the journal."""
        return [self._news.popleft() for _ in range(len(self._news))]

    def drain(
        self, seconds: float, show: Callable[[int, int], None], unwanted: Callable[[], bool] = lambda: False
    ) -> Left | None:
        """Send everything that is left, for at most `seconds`; returns what could not be sent, or None.

        `show` is called a few times a second with bytes done and bytes in all; `unwanted` ends the waiting.
        """
        if self._thread.ident is None:
            self._thread.start()
        with self._wake:
            self._final = True
            self._wake.notify_all()
        until = time.monotonic() + seconds
        while self._thread.is_alive():
            self._thread.join(0.2)
            progress = self.mirror.progress
            show(min(progress.done, progress.total), progress.total)
            waited = self._offline is not None and time.monotonic() - self._since > OFFLINE_PATIENCE
            patience = until - seconds + OFFLINE_PATIENCE if waited else until
            if time.monotonic() > min(until, patience) or unwanted():
                break
        reason = self._ended or (None if self._complete else self._offline)
        if self._thread.is_alive():
            reason = reason or ("interrupted." if unwanted() else f"the limit of {seconds:.0f} s is over.")
            self.mirror.stop.set()
            with self._wake:
                self._wake.notify_all()
            self._thread.join(2.0)
        self._release()
        if reason is None and self._withheld:
            reason = f"{self._withheld[0].rstrip('.')}."
        if reason is None:
            return None
        objects, count = self.mirror.waiting()
        return Left(objects, count, reason)

    def _release(self) -> None:
        try:
            with_timeout(RELEASE_SECONDS, self.lease.release, "the server")
        except FAILURES:
            # It expires by itself.
            return

    def _serve(self) -> None:
        try:
            self._work()
        finally:
            # Also after an error that nobody expected: what is not known to be complete is not called so.
            if not self._complete and self._ended is None and not self.mirror.stop.is_set():
                self._lost("uploading ended by an unexpected error.")

    def _work(self) -> None:
        backoff, kept, fetched = Backoff(), False, False
        while True:
            try:
                if not self._begun:
                    self.begin()
                if not kept:
                    self.lease.keep(self._lost)
                    kept = True
                if not fetched:
                    self._fetch()
                    fetched = True
                more = self._batch()
                backoff.succeeded()
                self._back()
                if not more:
                    self._complete = self._final
                    return
            except Abandoned:
                return
            except LeaseLost as error:
                self._lost(str(error))
                return
            except FAILURES as error:
                self._failed(error)
                if not self._pause(backoff.pause()):
                    return
            except (ConfigError, RunGone) as error:
                self._lost(str(error))
                return

    def _batch(self) -> bool:
        """Wait for something to do, and do it; False when all is done."""
        with self._wake:
            if not self._final and self._sent == self._committed and self._offline is None:
                self._wake.wait(PERIOD)
            committed, final = self._committed, self._final
        if self._ended:
            raise Abandoned
        began, self.mirror.image.cpu_seconds = (time.monotonic(), time.thread_time()), 0.0
        self.lease.confirm()
        sent = self.mirror.send(final, before_manifests=lambda: self.lease.confirm(0))
        for sentence in (*sent.damaged, *sent.skipped):
            self._say_once(sentence)
        if sent.objects:
            self._say(sent.line())
        self.lease.confirm()
        self.mirror.collect_garbage(final)
        self.mirror.threads = min(THREADS, self.mirror.threads * 2)
        self._withheld = sent.damaged
        if not sent.newest:
            return True
        self._sent = committed
        self._rest(*began)
        return not final

    def _rest(self, began: float, cpu_began: float) -> None:
        """Where checkpoints follow each other faster than they should be sent, the next batch waits, and is newer."""
        cpu = time.thread_time() - cpu_began + self.mirror.image.cpu_seconds
        with self._wake:
            self._wake.wait_for(
                lambda: self._final or self.mirror.stop.is_set(), cpu / SHARE - (time.monotonic() - began)
            )

    def _failed(self, error: Exception) -> None:
        # A link that cannot carry many transfers at once may carry one.
        self.mirror.threads = max(1, self.mirror.threads // 2)
        self.mirror.forget()
        if self._offline is None:
            self._since = time.monotonic()
            self._announce(f"{error} Training continues; uploads are tried again.")
        self._offline = str(error)
        if isinstance(error, Refused):
            try:
                self.mirror.bucket.renew()
            except ConfigError as worse:
                self._offline = str(worse)

    def _back(self) -> None:
        if self._offline is not None:
            self._offline = None
            self._announce(f"back after {time.monotonic() - self._since:.0f} s; everything is uploaded.")

    def _pause(self, seconds: float) -> bool:
        """Wait before the next attempt; False when there shall be none."""
        with self._wake:
            final = self._final
            # A drain that begins tries at once.
            self._wake.wait_for(lambda: self._final != final or self.mirror.stop.is_set(), seconds)
        return not self.mirror.stop.is_set()

    def _lost(self, sentence: str) -> None:
        if self._ended is None:
            self._ended = sentence
            self._announce(sentence)
        with self._wake:
            self._wake.notify_all()

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._announce(sentence)

    def _announce(self, sentence: str) -> None:
        self._news.append(sentence)
        self._say(f"cloud: {sentence}")
