"""Trackers follow a run's metrics.jsonl on a thread of their own: nothing they do can stop or delay a step.

How far each of them has come is kept in RUN/tracking.json. A resume cuts metrics.jsonl back to its checkpoint; what a
tracker lacks up to there is told again from the file, what it has beyond it comes again, and each tracker takes that
as its own rules say. A tracker that is switched on late is told everything.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from eigen2.cloud.names import TRACKING
from eigen2.config import Config
from eigen2.errors import DamagedStateError
from eigen2.harness.journal import Journal
from eigen2.harness.run import Run
from eigen2.harness.trackers import TRACKERS, Record, Tracked, Tracker
from eigen2.store.bounded_json import load_table
from eigen2.store.durable import write_atomically
from eigen2.store.layout import LINE_LIMIT
from eigen2.store.plain_files import open_plain, read_plain

LONGEST = 64 << 10
KEPT_SECONDS = 5.0
"""Between two writings of the positions."""
DRAIN_SECONDS = 60.0
"""At the end, how long the last steps may take to be told."""
BATCH = 500


class Tracking:
    """A thread that tells trackers what is new in a log."""

    def __init__(self, run: Run, tracked: Tracked, names: Sequence[str], journal: Journal, say: Callable[[str], None]) -> None:  # fmt: skip
        self._run, self._journal, self._say = run, journal, say
        self._log = run.log("metrics")
        self._known = read_positions(run.path / TRACKING)
        self._followers = {name: _Follower(name, tracked, self._known.get(name, 0)) for name in names}
        self._offset = 0
        self._news, self._end, self._done = threading.Event(), threading.Event(), False
        self._kept = time.monotonic()
        self._left = False
        """Set when nobody waits for the thread any more, and the journal is closed."""
        self._thread = threading.Thread(target=self._work, name="tracking", daemon=True)

    def start(self, step: int) -> None:
        """The log has been cut back to `step`."""
        for follower in self._followers.values():
            follower.cut_back(step)
        self._news.set()
        self._thread.start()

    def stepped(self) -> None:
        self._news.set()

    def close(self, done: bool) -> None:
        """Tell the rest; `done` when the run is."""
        self._done = done
        self._end.set()
        self._news.set()
        self._thread.join(DRAIN_SECONDS)
        if self._thread.is_alive():
            names = ", ".join(self._followers)
            self._tell(
                f"tracking: {names} did not end within {DRAIN_SECONDS:.0f} s; a resume tells what is missing."
            )
            self._left = True

    def _work(self) -> None:
        while True:
            self._news.wait()
            self._news.clear()
            ending = self._end.is_set()
            try:
                for records in self._read():
                    self._spread(records)
            except (OSError, ValueError, DamagedStateError) as error:
                self._tell(f"tracking: {self._log} cannot be followed ({error}); training goes on.")
                self._followers.clear()
            if ending:
                break
        for name in list(self._followers):
            self._attempt(name, lambda follower: follower.end(self._done))
        self._keep()

    def _spread(self, records: Sequence[Record]) -> None:
        for name in list(self._followers):
            self._attempt(name, lambda follower: follower.take(records))
        if time.monotonic() - self._kept > KEPT_SECONDS:
            self._keep()

    def _attempt(self, name: str, work: Callable[["_Follower"], None]) -> None:
        try:
            work(self._followers[name])
        except Exception as error:  # noqa: BLE001 - somebody else's code, network or disk: it is said, and training goes on
            follower = self._followers.pop(name)
            self._known[name] = follower.position
            words = " ".join(str(error).split())[:300] or type(error).__name__
            self._tell(
                f"tracking: {name} failed ({type(error).__name__}: {words}); training goes on without it."
            )

    def _read(self) -> Iterator[list[Record]]:
        """What was added to the log since the last time, in batches. It is opened anew: a disk that failed may have made
        it another file."""
        if not self._log.exists():
            return
        with open_plain(self._log) as raw, BufferedReader(raw) as file:
            file.seek(self._offset)
            records: list[Record] = []
            while (line := file.readline(LINE_LIMIT)).endswith(b"\n"):
                self._offset += len(line)
                records.append(_record(line))
                if len(records) == BATCH:
                    yield records
                    records = []
            if records:
                yield records

    def _keep(self) -> None:
        self._kept = time.monotonic()
        positions = self._known | {name: follower.position for name, follower in self._followers.items()}
        try:
            self._run.check_place()
            write_atomically(self._run.path / TRACKING, json.dumps(positions).encode())
        except (OSError, DamagedStateError) as error:
            self._tell(f"tracking: {TRACKING} cannot be written ({error}); a resume tells more than it must.")

    def _tell(self, message: str) -> None:
        if self._left:
            return
        self._journal.event("tracker", message)
        self._say(message)


class _Follower:
    """One tracker and how far it has come; it is opened when there is something to tell."""

    def __init__(self, name: str, tracked: Tracked, position: int) -> None:
        self.name, self._tracked = name, tracked
        # What is kept elsewhere says itself how far it is; what was here and is gone is told again.
        self.position = position if (tracked.directory / name).is_dir() else 0
        self._tracker: Tracker | None = None

    def cut_back(self, step: int) -> None:
        self.position = min(self.position, step)

    def take(self, records: Sequence[Record]) -> None:
        if all(step <= self.position for step, _ in records):
            return
        if self._tracker is None:
            self._tracker = TRACKERS[self.name](self._tracked)
            self.position = self._tracker.begin(self.position)
        new = [record for record in records if record[0] > self.position]
        if new:
            self._tracker.log(new)
            self.position = new[-1][0]

    def end(self, done: bool) -> None:
        if self._tracker is not None:
            self._tracker.end(done)


@contextmanager
def tracking(
    run: Run, config: Config, journal: Journal, step: int, say: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """Inside, the trackers of `config` follow an owned run that goes on after `step`; the yielded function says that there
    is news."""
    if not config.track:
        yield lambda: None
        return
    tracked = Tracked(run.path, run.name, run.identify(), config.model_dump(mode="json"))
    found = Tracking(run, tracked, config.track, journal, say)
    found.start(step)
    done = False
    try:
        yield found.stepped
        done = True
    finally:
        found.close(done)


def read_positions(path: Path) -> dict[str, int]:
    """Tracker -> the last step that it was told; nothing when nobody wrote it down."""
    try:
        values = load_table(read_plain(path, LONGEST))
    except (FileNotFoundError, ValueError, DamagedStateError):
        return {}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    }


def _record(line: bytes) -> Record:
    values = load_table(line)
    step = values.pop("step", None)
    if not isinstance(step, int) or isinstance(step, bool):
        raise ValueError("a line names no step")
    return step, {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
