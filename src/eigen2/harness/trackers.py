"""Where metrics can be shown besides our own pages: TensorBoard, Weights & Biases, trackio.

Each is told the steps of a run in their order, and what it has of them already. Their packages are imported when the
first step is told.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from eigen2.errors import ConfigError

Record = tuple[int, Mapping[str, float]]
"""A step and its metrics."""
PROJECT = "eigen2"
INIT_SECONDS = 20.0
"""For a server to answer."""


@dataclass(frozen=True)
class Tracked:
    """The run that is tracked."""

    directory: Path
    name: str
    id: str
    config: Mapping[str, Any]


class Tracker(Protocol):
    def begin(self, after: int) -> int:
        """Steps up to `after` are there, as far as we know, and later ones may be, and come again; returns the step
        after which to continue."""
        ...

    def log(self, records: Sequence[Record]) -> None:
        """Show them; what was logged is on disk or on its way when this returns."""
        ...

    def end(self, done: bool) -> None:
        """The run is `done`, or will be resumed."""
        ...


class TensorBoard:
    """Event files in RUN/tensorboard. A restart writes from which step on older events no longer count; TensorBoard
    drops them."""

    def __init__(self, tracked: Tracked) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        directory = tracked.directory / "tensorboard"
        self._fresh = not directory.is_dir() or not any(directory.glob("events.out.tfevents.*"))
        self._writer = EventFileWriter(str(directory))

    def begin(self, after: int) -> int:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        if self._fresh:
            return 0
        started = SessionLog(status=SessionLog.START)
        self._writer.add_event(Event(wall_time=time.time(), step=after + 1, session_log=started))
        return after

    def log(self, records: Sequence[Record]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        for step, metrics in records:
            values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
            self._writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        self._writer.flush()

    def end(self, done: bool) -> None:
        self._writer.close()


class WeightsAndBiases:
    """The run's id is also its id there, so a resume continues the same one. Without an API key it stays in
    RUN/wandb, and `wandb sync` sends it. Steps that are there are not logged twice."""

    def __init__(self, tracked: Tracked) -> None:
        import wandb

        mode: Any = os.environ.get("WANDB_MODE") or ("offline" if wandb.api.api_key is None else "online")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=tracked.name,
            id=tracked.id,
            config=dict(tracked.config),
            dir=str(tracked.directory),
            resume=None if mode == "offline" else "allow",
            mode=mode,
            settings=wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, init_timeout=INIT_SECONDS
            ),
        )
        self._run.define_metric("*", step_metric="step")

    def begin(self, after: int) -> int:
        return max(after, self._run.step - 1)

    def log(self, records: Sequence[Record]) -> None:
        for step, metrics in records:
            self._run.log({"step": step, **metrics}, step=step)

    def end(self, done: bool) -> None:
        self._run.finish(exit_code=0 if done else 1)


class Trackio:
    """The table of the user's own trackio (`trackio show`), which a resume reads to see what is there."""

    def __init__(self, tracked: Tracked) -> None:
        from trackio.sqlite_storage import SQLiteStorage

        self._tracked, self._storage = tracked, SQLiteStorage
        self._config: dict[str, Any] | None = dict(tracked.config)

    def begin(self, after: int) -> int:
        found = self._storage.get_max_step_for_run(PROJECT, run=self._tracked.name, run_id=self._tracked.id)
        return 0 if found is None else int(found)

    def log(self, records: Sequence[Record]) -> None:
        now = datetime.now(UTC).isoformat()
        self._storage.bulk_log(
            PROJECT,
            self._tracked.name,
            [dict(metrics) for _, metrics in records],
            steps=[step for step, _ in records],
            timestamps=[now] * len(records),
            config=self._config,
            run_id=self._tracked.id,
        )
        self._config = None

    def end(self, done: bool) -> None:
        """Every batch was written whole."""


TRACKERS: Mapping[str, type[TensorBoard] | type[WeightsAndBiases] | type[Trackio]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "trackio": Trackio,
}


def check_trackers(names: Sequence[str]) -> None:
    """Refuse trackers whose packages are not installed."""
    if missing := [name for name in names if find_spec(name) is None]:
        raise ConfigError(
            f"track={','.join(names)} needs {' and '.join(missing)}, not installed here: `pip install 'eigen2[track]'`, "
            "or track=off."
        )
