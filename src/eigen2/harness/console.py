"""What people see while a run works: one quiet box on a terminal, one line per step elsewhere."""

import math
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import psutil
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from eigen2.algorithms.contract import Trainer
from eigen2.harness.progress import Bar, PatientConsole, draws, is_hushed

__all__ = ["PatientConsole", "TrainingConsole", "sparkline"]

FRAMES = 4
"""Boxes drawn in a second."""
WIDEST = 76
"""Cells of a box."""
NUMBER = 10
"""Cells of a figure of four digits, sign and exponent included: columns stay where they are."""
REMEMBERED = 200
"""Steps that a sparkline looks back on."""
BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.,-~=*#"


@dataclass
class _Figure:
    """A metric: what it is now, and how it came there."""

    name: str
    unit: str = ""
    value: float = math.nan
    past: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def take(self, value: float) -> None:
        self.value = value
        self.past.append(value)


class TrainingConsole:
    """What is shown of a trainer is what it declares: the name of its steps, its phases and its headline metrics."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.name, self.steps, self.step, self.step_name = "", 0, 0, "step"
        self._phases: tuple[str, ...] = ()
        self._units: Mapping[str, str] = {}
        self._declared: tuple[str, ...] = ()
        self._figures: tuple[_Figure, ...] = ()
        self._process = psutil.Process()
        self._durations: deque[float] = deque(maxlen=20)
        self._started = self._began = time.monotonic()
        self._phase, self._done, self._total = "", 0, 1
        self._rate = 0.0
        self._env_steps: float | None = None
        self._bar: Bar | None = None
        self._ascii = console.options.ascii_only
        self._draws, self._hushed = draws(console), is_hushed(console)
        self._live = Live(get_renderable=self.box, console=console, refresh_per_second=FRAMES, transient=True)

    def __enter__(self) -> Self:
        self.rests()
        if self._draws:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._draws:
            self._live.stop()

    def works(self, what: str) -> None:
        """Something begins that takes a while and is no step: a bar, until `rests` or the box."""
        self.rests()
        if self._draws:
            self._bar = Bar(self.console, what)

    def rests(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def begin(self, name: str, trainer: Trainer, step: int) -> None:
        """A run starts, or resumes after `step`."""
        self.name, self.steps, self.step, self.step_name = name, trainer.steps, step, trainer.step_name
        self._phases, self._units = trainer.phases, trainer.units
        self._declared = tuple(dict.fromkeys((*trainer.headline, "best_score")))
        self._started = self._began = time.monotonic()

    def phase(self, phase: str, done: int, total: int) -> None:
        """Called by the trainer as it works, perhaps thousands of times a second; the box is drawn a few times."""
        self._phase, self._done, self._total = phase, done, total

    def stepped(self, step: int, metrics: Mapping[str, float]) -> None:
        now = time.monotonic()
        self._durations.append(now - self._began)
        if "env_steps" in metrics:
            before = self._env_steps
            self._rate = (
                0.0 if before is None else (metrics["env_steps"] - before) / max(now - self._began, 1e-9)
            )
            self._env_steps = metrics["env_steps"]
        self._began, self.step = now, step
        self._learn(metrics)
        if not self._draws and not self._hushed:
            self.console.print(self._line(metrics), highlight=False, markup=False, soft_wrap=True)

    def _learn(self, metrics: Mapping[str, float]) -> None:
        """A metric that was known once keeps its place. The box is drawn by another thread: what it iterates is
        replaced, not changed."""
        known = {figure.name: figure for figure in self._figures}
        for name in self._declared:
            if math.isfinite(metrics.get(name, math.nan)):
                known.setdefault(name, _Figure(name, self._units.get(name, ""))).take(metrics[name])
        self._figures = tuple(known[name] for name in self._declared if name in known)

    def say(self, message: str) -> None:
        """What people must know."""
        self.console.print(message, highlight=False, markup=False, soft_wrap=True)

    def mention(self, message: str) -> None:
        """What people may like to know."""
        if not self._hushed:
            self.say(message)

    @property
    def seconds(self) -> float:
        """Duration of the last step."""
        return self._durations[-1] if self._durations else 0.0

    @property
    def rss(self) -> int:
        return int(self._process.memory_info().rss)

    def _line(self, metrics: Mapping[str, float]) -> str:
        """Every figure in its place, so that lines below each other are a table."""
        shown = [figure for figure in self._figures if math.isfinite(metrics.get(figure.name, math.nan))]
        figures = "  ".join(f"{figure.name} {figure.value:<{NUMBER}.4g}" for figure in shown)
        rate = f"{self._rate:>9,.0f} steps/s  " if self._rate else ""
        return (
            f"{self.step_name} {self.step:>{len(str(self.steps))}}/{self.steps}  {figures}  {rate}"
            f"RSS {self.rss / 1e9:.2f} GB  {self.seconds:.1f} s  left {_clock(self._left())}"
        )

    def box(self) -> RenderableType:
        """How the run stands now."""
        width = min(WIDEST, self.console.width)
        inner = width - 4
        whole = Table.grid(padding=(0, 2))
        heading = max(len(self.step_name), *(len(self._phase_line(phase)) for phase in self._phases or ("",)))
        whole.add_column(width=heading)
        whole.add_column(justify="right", width=2 * len(str(self.steps)) + 1)
        bar = max(8, inner - heading - 2 * len(str(self.steps)) - 5)
        whole.add_row(
            self.step_name, f"{self.step}/{self.steps}", ProgressBar(self.steps or 1, self.step, width=bar)
        )
        part = ProgressBar(max(self._total, 1), self._done, width=bar)
        whole.add_row(self._phase_line(self._phase), "", part if self._phase else "")
        parts: list[RenderableType] = [whole, Text("")]
        if self._figures:
            parts += [self._table(inner), Text("")]
        return Panel(Group(*parts, Text(self._footing(), style="dim")), title=Text(self.name), width=width)

    def _table(self, inner: int) -> Table:
        table = Table.grid(padding=(0, 2))
        figures = self._figures
        names = max(len(figure.name) for figure in figures)
        units = max(len(figure.unit) for figure in figures)
        table.add_column(max_width=names, overflow="ellipsis")
        table.add_column(justify="right", min_width=NUMBER, no_wrap=True)
        table.add_column(max_width=units, overflow="ellipsis")
        room = max(0, min(40, inner - names - NUMBER - units - 6))
        for figure in figures:
            label, value = figure.name.replace("_", " "), f"{figure.value:.4g}"
            line = sparkline(figure.past, room, ASCII if self._ascii else BLOCKS)
            table.add_row(label, value, figure.unit, Text(line, style="cyan"))
        return table

    def _footing(self) -> str:
        """Two lines, whatever is known."""
        elapsed, speed = (
            [f"elapsed {_clock(time.monotonic() - self._started)}"],
            [f"memory {self.rss / 1e9:.2f} GB"],
        )
        if self._durations:
            elapsed.append(f"left {_clock(self._left())}")
            speed.append(f"{self.seconds:.1f} s a {self.step_name}")
        speed += [f"{self._rate:,.0f} env steps/s"] if self._rate else []
        between = " | " if self._ascii else " · "
        return between.join(elapsed) + "\n" + between.join(speed)

    def _phase_line(self, phase: str) -> str:
        """The phase under way and its place among those of a step: `train 2/4`."""
        if phase not in self._phases:
            return phase
        return f"{phase} {self._phases.index(phase) + 1}/{len(self._phases)}"

    def _left(self) -> float:
        if not self._durations:
            return 0.0
        mean = sum(self._durations) / len(self._durations)
        return max(0.0, (self.steps - self.step) * mean - (time.monotonic() - self._began))


def sparkline(values: Iterable[float], width: int, blocks: str = BLOCKS) -> str:
    """The newest `width` values as blocks, from the lowest of them to the highest."""
    shown = list(values)[-width:] if width > 0 else []
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    span = high - low
    if not math.isfinite(span) or span <= 0.0:
        return blocks[3] * len(shown)
    return "".join(blocks[min(7, int(8.0 * ((value - low) / span)))] for value in shown)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
