"""What people see while a run works: one quiet box on a terminal, one line per step elsewhere."""

import math
import os
import time
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import psutil
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from eigen2.algorithms.contract import Trainer


class PatientConsole(Console):
    """Goes silent when nobody reads any more (`train | head`): that is no reason to stop a run."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


FRAMES = 4
"""Boxes drawn in a second."""


class TrainingConsole:
    """What is shown of a trainer is what it declares: its phases and its headline metrics."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.name, self.steps, self.step = "", 0, 0
        self._phases: tuple[str, ...] = ()
        self._headline: tuple[str, ...] = ()
        self._process = psutil.Process()
        self._durations: deque[float] = deque(maxlen=20)
        self._began = time.monotonic()
        self._phase, self._done, self._total = "", 0, 1
        self._metrics: Mapping[str, float] = {}
        self._drawn = 0.0
        self._rate = 0.0
        self._env_steps: float | None = None
        # A terminal that cannot move its cursor gets lines, as a file does.
        boxes = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, refresh_per_second=FRAMES, transient=True) if boxes else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def begin(self, name: str, trainer: Trainer, step: int) -> None:
        """A run starts, or goes on after `step`."""
        self.name, self.steps, self.step = name, trainer.steps, step
        self._phases, self._headline = trainer.phases, trainer.headline
        self._began = time.monotonic()

    def phase(self, phase: str, done: int, total: int) -> None:
        """Called by the trainer as it works, perhaps thousands of times a second; the box is drawn a few times."""
        self._phase, self._done, self._total = phase, done, total
        if self._live is not None and time.monotonic() - self._drawn > 1.0 / FRAMES:
            self._draw(self._live)

    def stepped(self, step: int, metrics: Mapping[str, float]) -> None:
        now = time.monotonic()
        self._durations.append(now - self._began)
        if "env_steps" in metrics:
            before = self._env_steps
            self._rate = (
                0.0 if before is None else (metrics["env_steps"] - before) / max(now - self._began, 1e-9)
            )
            self._env_steps = metrics["env_steps"]
        self._began, self.step, self._metrics = now, step, metrics
        if self._live is None:
            self.console.print(self._line(), highlight=False, soft_wrap=True)
        else:
            self._draw(self._live)

    def _draw(self, live: Live) -> None:
        live.update(self._box())
        self._drawn = time.monotonic()

    def say(self, message: str) -> None:
        self.console.print(message, highlight=False, markup=False, soft_wrap=True)

    @property
    def seconds(self) -> float:
        """Duration of the last step."""
        return self._durations[-1] if self._durations else 0.0

    @property
    def rss(self) -> int:
        return int(self._process.memory_info().rss)

    def _line(self) -> str:
        figures = "  ".join(f"{name} {value:.4g}" for name, value in self._shown())
        rate = f"  {self._rate:,.0f} steps/s" if self._rate else ""
        return (
            f"{self.step}/{self.steps}  {figures}{rate}  RSS {self.rss / 1e9:.2f} GB  "
            f"{self.seconds:.1f} s  left {_clock(self._left())}"
        )

    def _box(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        grid.add_row(
            "step", f"{self.step}/{self.steps}", "left", _clock(self._left()) if self._durations else ""
        )
        if self._phase:
            grid.add_row(
                self._phase_line(), ProgressBar(total=max(self._total, 1), completed=self._done, width=30)
            )
        for name, value in self._shown():
            grid.add_row(name.replace("_", " "), f"{value:.4g}")
        rate = f"{self._rate:,.0f} steps/s" if self._rate else ""
        grid.add_row("RSS", f"{self.rss / 1e9:.2f} GB", "speed", rate)
        whole = ProgressBar(total=self.steps, completed=self.step, width=60)
        return Panel(Group(grid, whole), title=self.name, width=72)

    def _shown(self) -> list[tuple[str, float]]:
        names = (*self._headline, "best_score")
        return [
            (name, self._metrics[name]) for name in names if math.isfinite(self._metrics.get(name, math.nan))
        ]

    def _phase_line(self) -> str:
        """The phase under way and its place among those of a step: `train 2/4`."""
        if self._phase not in self._phases:
            return self._phase
        return f"{self._phase} {self._phases.index(self._phase) + 1}/{len(self._phases)}"

    def _left(self) -> float:
        if not self._durations:
            return 0.0
        return (self.steps - self.step) * sum(self._durations) / len(self._durations)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
