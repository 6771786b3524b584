"""Trackers follow a run's metrics.jsonl, each from where it is; how far they have come is kept in RUN/tracking.json.

A resume cuts metrics.jsonl back to its checkpoint; what a tracker lacks up to there is sent again from the file, what
it has beyond it comes again, and each tracker takes that as its own rules say. A tracker that is switched on late is
told everything.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path

from eigen2.cloud.names import TRACKING
from eigen2.errors import Eigen2Error
from eigen2.harness.place import Place
from eigen2.harness.trackers import TRACKERS, Record, Tracked, Tracker
from eigen2.store.bounded_json import load_table
from eigen2.store.durable import write_atomically
from eigen2.store.layout import LINE_LIMIT
from eigen2.store.plain_files import open_plain, read_plain

LONGEST = 64 << 10
"""Bytes of tracking.json."""
KEPT_SECONDS = 5.0
"""Between two writings of the positions."""
BATCH = 500


class Following:
    """Feeds the trackers `names` of a run that resumes after `step`; failures are passed to `tell`."""

    def __init__(
        self, place: Place, tracked: Tracked, names: Sequence[str], step: int, tell: Callable[[str], None]
    ) -> None:
        self._place, self._tell = place, tell
        self._log, self._file = tracked.directory / "metrics.jsonl", tracked.directory / TRACKING
        self._known = read_positions(self._file)
        self._followers = {name: _Follower(name, tracked, self._known.get(name, 0), step) for name in names}
        self._offset = 0
        self._kept = time.monotonic()

    def news(self) -> None:
        """Something was added to the log."""
        try:
            for records in self._read():
                self._place.check()
                self._spread(records)
        except (OSError, ValueError, Eigen2Error) as error:
            self._tell(f"tracking: {self._log} cannot be read ({error}); training continues without it.")
            self._followers.clear()

    def end(self, done: bool, keep: bool = True) -> None:
        """The run is `done`, or will be resumed. Without `keep`, somebody else may follow it by now."""
        for name in list(self._followers):
            self._attempt(name, lambda follower: follower.end(done))
        if keep:
            self._keep()

    def _spread(self, records: Sequence[Record]) -> None:
        for name in list(self._followers):
            self._attempt(name, lambda follower: follower.take(records))
        if time.monotonic() - self._kept > KEPT_SECONDS:
            self._keep()

    def _attempt(self, name: str, work: "Callable[[_Follower], None]") -> None:
        try:
            work(self._followers[name])
        except Exception as error:  # noqa: BLE001 - somebody else's code, network or disk: it is said, and training goes on
            self._known[name] = self._followers.pop(name).position
            words = " ".join(str(error).split())[:300] or type(error).__name__
            self._tell(
                f"tracking: {name} failed ({type(error).__name__}: {words}); training continues without it."
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
            self._place.check()
            write_atomically(self._file, json.dumps(positions).encode())
        except (OSError, Eigen2Error) as error:
            self._tell(
                f"tracking: {self._file} cannot be written ({error}); a resume may send some steps again."
            )


class _Follower:
    """One tracker and how far it has come; it is opened when there is something to send."""

    def __init__(self, name: str, tracked: Tracked, known: int, step: int) -> None:
        self.name, self._tracked = name, tracked
        # What is kept elsewhere knows how far it is; what was here and is gone is sent again.
        self.position = min(known, step) if (tracked.directory / name).is_dir() else 0
        self._tracker: Tracker | None = None

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


def read_positions(path: Path) -> dict[str, int]:
    """Tracker -> the last step it was sent; empty if that was never written down."""
    try:
        values: Mapping[str, object] = load_table(read_plain(path, LONGEST))
    except (FileNotFoundError, ValueError, Eigen2Error):
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
