"""`plan`, and what `train` says and asks before it starts."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eigen2.algorithms import registry
from eigen2.algorithms.contract import Experiment, Needs, Services
from eigen2.cloud.words import size_words
from eigen2.config import Config
from eigen2.errors import ResourceError
from eigen2.harness.advice import problems, refuse, suggestions
from eigen2.harness.forecast import Forecast, Measured, Opened, forecast, trainer_needs
from eigen2.harness.room import Room, room_here

PYARROW = 80_000_000
"""What the library takes that stores the series of an evaluation."""
SHARE = 0.9
"""Of the memory that is there, what a calibration may take."""


class Planner:
    """Forecasts of one config: computed, refined by an open experiment, or measured."""

    def __init__(self, config: Config, services: Services, uploads: bool) -> None:
        self.config, self.services, self.uploads = config, services, uploads
        self.algorithm = registry.algorithm(config.alg.kind)
        self.room: Room = room_here(config)
        self.needs: Needs | None = self.algorithm.needs(config, services)

    def computed(self) -> Forecast:
        return self._forecast(self.config, self.needs)

    def opened(self, experiment: Experiment, own_data: int) -> Forecast:
        """Once the experiment is in memory; nothing is run."""
        from eigen2.memory.peak import peak_bytes, resident_bytes
        from eigen2.store.state import largest_share, state_bytes

        trainer = experiment.trainer
        if self.needs is None:
            self.needs = trainer_needs(trainer)
        state = trainer.state_dict()
        later = 0 if "pyarrow" in sys.modules else PYARROW
        found = Opened(
            resident_bytes(), peak_bytes(), state_bytes(state), own_data, later, largest_share(state)
        )
        return self._forecast(self.config, self.needs, opened=found)

    def measured(self) -> tuple[Forecast, str | None]:
        """With a calibration in a child process; the sentence says why there is none, if so."""
        from eigen2.harness.calibration import TooSlow, calibrate

        if self.algorithm.calibration(self.config) is None:
            return self.computed(), "this run cannot be calibrated; the figures are computed"
        try:
            found = calibrate(self.config, round(SHARE * self.room.ram))
        except TooSlow as error:
            return self.computed(), f"{error}; the figures are computed"
        return self._forecast(self.config, self.needs, measured=found), None

    def require(self, wanted: Forecast) -> None:
        """Raise ResourceError, with advice, if the run does not fit."""
        if problems(wanted, self.room):
            refuse(wanted, self.room, self.advice())

    def require_memory(self) -> None:
        """The same of a run whose directory exists already: what it has on disk it need not find room for."""
        self.room = replace(self.room, disk=max(self.room.disk, sys.maxsize))
        self.require(self.computed())

    def advice(self) -> list[tuple[str, Any]]:
        if self.needs is None:
            return []
        return suggestions(self.config, self.needs.knobs, self._would_fit)

    def _would_fit(self, config: Config) -> bool:
        needs = self.algorithm.needs(config, self.services)
        return needs is not None and not problems(self._forecast(config, needs), self.room)

    def _forecast(
        self,
        config: Config,
        needs: Needs | None,
        *,
        opened: Opened | None = None,
        measured: Measured | None = None,
    ) -> Forecast:
        return forecast(
            config, needs, uploads=self.uploads, on_gpu=bool(self.room.gpu), opened=opened, measured=measured
        )


def plan_run(
    overrides: Sequence[str], log_dir: Path | None = None
) -> tuple[dict[str, Any], ResourceError | None]:
    """The facts of `plan`, and why the run would be refused, if it would. Nothing is written."""
    from eigen2.harness.training import planned_config

    config, services, uploads = planned_config(overrides, log_dir)
    planner = Planner(config, services, uploads)
    wanted, note = planner.computed(), None
    if not problems(wanted, planner.room):
        try:
            wanted, note = planner.measured()
        except ResourceError as error:
            return _facts(planner, wanted, fits=False, note=str(error)), ResourceError(f"{error}.")
    facts = _facts(planner, wanted, fits=not problems(wanted, planner.room), note=note)
    try:
        planner.require(wanted)
    except ResourceError as error:
        return facts, error
    return facts, None


def _facts(planner: Planner, wanted: Forecast, *, fits: bool, note: str | None) -> dict[str, Any]:
    advice = [] if fits else [f"{key}={value}" for key, value in planner.advice()]
    return {
        "fits": fits,
        **wanted.to_json(),
        "available": planner.room.to_json(),
        "advice": advice,
        "note": note,
    }


def box(wanted: Forecast, room: Room) -> str:
    """One line for the start of a run."""
    parts = [f"memory {size_words(wanted.ram_bytes)} of {size_words(room.ram)}"]
    if room.gpu:
        parts.append(f"GPU {size_words(wanted.gpu_bytes)} of {size_words(room.gpu)}")
    parts.append(f"disk {size_words(wanted.disk_bytes)} of {size_words(room.disk)}")
    if wanted.uploads:
        parts.append(f"upload {size_words(wanted.upload_bytes)}")
    return "forecast: " + ", ".join(parts)


def table(facts: dict[str, Any]) -> Any:
    """What `plan` prints."""
    from datetime import timedelta

    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

    gpu = facts["available"]["gpu_bytes"] > 0
    columns = ["ram_bytes", "disk_bytes", "upload_bytes", *(["gpu_bytes"] if gpu else [])]
    titles = ["memory", "disk", "upload", *(["GPU"] if gpu else [])]
    rows = Table("", title="forecast", title_justify="left")
    for title in titles:
        rows.add_column(title, justify="right")
    for name, part in facts["components"].items():
        rows.add_row(name, *(size_words(part[key]) if part[key] else "" for key in columns))
    rows.add_section()
    rows.add_row("in all", *(size_words(facts[key]) for key in columns))
    rows.add_row("there is", *(size_words(facts["available"].get(key, 0)) for key in columns[:2]))
    lines: list[RenderableType] = [rows]
    if facts["seconds"] is not None:
        lines.append(Text(f"time {timedelta(seconds=round(facts['seconds']))}"))
    if facts["note"]:
        lines.append(Text(f"{facts['note']}."))
    lines.append(Text("The run fits." if facts["fits"] else "The run does not fit."))
    return Group(*lines)
