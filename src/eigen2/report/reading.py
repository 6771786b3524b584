"""A run directory as a report sees it: everything that can be read, and a sentence for everything that cannot.

A run may be training, stopped, crashed or damaged while it is looked at; none of that keeps a report from being made.
"""

import base64
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from eigen2.errors import DamagedStateError, Eigen2Error
from eigen2.harness.listing import state_of
from eigen2.harness.run import Run
from eigen2.harness.tables import from_parquet
from eigen2.harness.upload_queue import Waiting, waiting
from eigen2.report.logs import GrowingLog
from eigen2.store.bounded_json import load_table
from eigen2.store.layout import FILM, PHASE
from eigen2.store.plain_files import read_plain

FILM_LIMIT = 3 << 20
PHASE_LIMIT = 4_096
Result = TypeVar("Result")
Table = Mapping[str, list[Any]]
"""Columns of one length; a value that a record lacks is None."""


@dataclass(frozen=True)
class StoredEvaluation:
    """One line of evaluations.jsonl, with its series."""

    facts: dict[str, Any]
    series: dict[str, Table]

    @property
    def split(self) -> str:
        return str(self.facts.get("split") or "evaluation")

    @property
    def panels(self) -> list[dict[str, Any]]:
        return panel_list(self.facts.get("panels"))


@dataclass
class RunView:
    path: Path
    state: str
    metadata: dict[str, Any]
    config: dict[str, Any]
    logs: dict[str, Table]
    events: list[dict[str, Any]]
    evaluations: list[StoredEvaluation]
    """The newest of each split, oldest first."""
    uses: dict[str, int]
    """How often each split was evaluated."""
    disk: dict[str, int]
    phase: str = ""
    """What a run that trains is doing now, where it says so."""
    film: str = ""
    """A moving picture of the champion, as a data: address."""
    cloud: Waiting | None = None
    """What waits to be uploaded; None for a run without a cloud."""
    problems: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def panels(self) -> list[dict[str, Any]]:
        return panel_list(self.metadata.get("panels"))

    @property
    def seconds_left(self) -> float | None:
        """Of a run that trains, from its newest steps."""
        step, steps = self.last("step"), self.metadata.get("steps")
        if self.state != "running" or not isinstance(step, int) or not isinstance(steps, int):
            return None
        known = [
            value for value in self.logs["memory"].get("seconds", [])[-20:] if isinstance(value, int | float)
        ]
        return max(0, steps - step) * statistics.median(known) if known else None

    def last(self, name: str) -> Any:
        """The newest known value of a metric."""
        return next(
            (value for value in reversed(self.logs["metrics"].get(name, [])) if value is not None), None
        )


class RunReader:
    """Reads a run again and again; what has been read and cannot change is kept."""

    def __init__(self, path: Path) -> None:
        self.run = Run(path)
        self.logs = {
            name: GrowingLog(self.run.log(name), _memory_row if name == "memory" else dict)
            for name in ("metrics", "lineage", "memory", "events", "evaluations")
        }
        self._series: dict[str, Table] = {}

    def view(self) -> RunView:
        run, problems = self.run, list[str]()

        def attempt(work: Callable[[], Result], otherwise: Result) -> Result:
            try:
                return work()
            except (Eigen2Error, OSError, ValueError) as error:
                problems.append(str(error))
                return otherwise

        for log in self.logs.values():
            attempt(log.refresh, False)
            if log.bad:
                problems.append(
                    f"{log.path.name} is damaged: {log.bad} of {log.bad + log.count} lines are no records"
                )
        nothing: dict[str, Any] = {}
        metadata, config = attempt(run.metadata, nothing), attempt(run.raw_config, nothing)
        records = self.logs["evaluations"].records()
        newest = {str(record.get("split")): record for record in records}
        evaluations = [
            StoredEvaluation(record, self._tables(record, problems))
            for record in sorted(newest.values(), key=lambda record: _seconds(record.get("time")))
        ]
        state = attempt(lambda: state_of(run, metadata), "damaged")
        return RunView(
            path=run.path,
            state=state,
            phase=attempt(lambda: _phase(run.path / PHASE), "") if state == "running" else "",
            metadata=metadata,
            config=config if isinstance(config, dict) else {},
            logs={name: self.logs[name].columns for name in ("metrics", "lineage", "memory")},
            events=self.logs["events"].records(),
            evaluations=evaluations,
            uses=Counter(str(record.get("split")) for record in records),
            disk=_disk(run.path),
            film=attempt(lambda: _film(run.path / FILM), ""),
            cloud=attempt(lambda: waiting(run, config), None),
            problems=problems,
        )

    def _tables(self, record: dict[str, Any], problems: list[str]) -> dict[str, Table]:
        """The series of an evaluation, every byte proven."""
        named = record.get("series")
        found: dict[str, Table] = {}
        for name, digest in (named if isinstance(named, dict) else {}).items():
            if str(digest) not in self._series:
                try:
                    self._series[str(digest)] = _read_table(self.run, str(digest))
                except (Eigen2Error, OSError, ValueError) as error:
                    problems.append(f"the series '{name}' cannot be shown: {error}")
                    continue
            found[str(name)] = self._series[str(digest)]
        return found


def read_run(path: Path) -> RunView:
    return RunReader(path).view()


def _phase(path: Path) -> str:
    return str(load_table(read_plain(path, PHASE_LIMIT)).get("phase") or "")[:60] if path.is_file() else ""


def _film(path: Path) -> str:
    if not path.is_file():
        return ""
    content = read_plain(path, FILM_LIMIT)
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        raise DamagedStateError(f"{path} is no film")
    return "data:image/webp;base64," + base64.b64encode(content).decode("ascii")


def panel_list(value: Any) -> list[dict[str, Any]]:
    """Panels as stored; what is none is left out: a report of a stranger's run shows what it can."""
    return [panel for panel in value if isinstance(panel, dict)] if isinstance(value, list) else []


def _memory_row(record: dict[str, Any]) -> dict[str, Any]:
    owners, phases = record.get("owners"), record.get("phases")
    row = {name: record.get(name) for name in ("step", "seconds", "rss_bytes", "time")}
    if isinstance(owners, dict):
        row |= {f"owner {name}": size for name, size in owners.items() if isinstance(size, int | float)}
    if isinstance(phases, dict):
        row |= {f"phase {name}": one["seconds"] for name, one in phases.items()
                if isinstance(one, dict) and isinstance(one.get("seconds"), int | float)}  # fmt: skip
    return row


def _read_table(run: Run, digest: str) -> Table:
    columns = from_parquet(bytes(run.checkpoints.objects.read(digest)))
    return {column: [_plain(value) for value in values.tolist()] for column, values in columns.items()}


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int | str | bool | None) else str(value)


def _disk(path: Path) -> dict[str, int]:
    """Bytes by part of the directory; a file that has just been replaced counts nothing."""
    found: dict[str, int] = {}
    for file in path.rglob("*"):
        try:
            size = file.lstat().st_size if file.is_file() and not file.is_symlink() else 0
        except FileNotFoundError:
            continue
        part = file.relative_to(path).parts[0]
        found[part] = found.get(part, 0) + size
    return {name: size for name, size in sorted(found.items(), key=lambda item: -item[1]) if size}
