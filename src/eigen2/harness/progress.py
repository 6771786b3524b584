"""Long jobs show progress: a bar on a terminal, a line now and then elsewhere, nothing where it is not wanted."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from eigen2.cloud.words import legible, size_words

Say = Callable[[str], None]
Show = Callable[[int, int], None]
"""Called with how much is done, and of how much; 0 in all: not known."""
QUIET_SECONDS = 10.0
"""Between two lines of progress where there is no terminal."""


class PatientConsole(Console):
    """Goes silent when nobody reads any more (`train | head`): that is no reason to stop a run.

    `hushed`: results and warnings alone are wanted, no progress."""

    def __init__(self, stderr: bool = False, hushed: bool = False, **options: object) -> None:
        super().__init__(stderr=stderr, **options)  # type: ignore[arg-type]
        self.hushed = hushed

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


def is_hushed(console: Console) -> bool:
    return isinstance(console, PatientConsole) and console.hushed


def draws(console: Console) -> bool:
    """Whether boxes and bars can be shown. A terminal that cannot move its cursor gets lines, as a file does."""
    return console.is_terminal and not console.is_dumb_terminal and not is_hushed(console)


def sayer(console: Console) -> Say:
    return lambda message: console.print(legible(message), highlight=False, markup=False, soft_wrap=True)


class _Counted(MofNCompleteColumn):
    """Empty while nobody knows how much there is."""

    def render(self, task: Task) -> Text:
        return Text("") if task.total is None else super().render(task)


class Bar:
    """One job on a terminal; it moves while nothing is known of its length."""

    def __init__(self, console: Console, what: str, columns: tuple[ProgressColumn, ...] = ()) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            *(columns or (_Counted(), TimeElapsedColumn())),
            console=console,
            transient=True,
        )
        self._task: TaskID = self._progress.add_task(what, total=None)
        self._progress.start()

    def show(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total or None)

    def close(self) -> None:
        self._progress.stop()


@contextmanager
def working(console: Console, what: str) -> Iterator[Show]:
    """A job whose parts are counted, if at all."""
    with _shown(console, what, (), lambda done, total: f"{done:,} of {total:,}") as show:
        yield show


@contextmanager
def transferring(console: Console, what: str) -> Iterator[Show]:
    """A job that is counted in bytes."""
    columns = (DownloadColumn(), TransferSpeedColumn())
    words: Callable[[int, int], str] = lambda done, total: f"{size_words(done)} of {size_words(total)}"  # noqa: E731
    with _shown(console, what, columns, words) as show:
        yield show


@contextmanager
def _shown(
    console: Console, what: str, columns: tuple[ProgressColumn, ...], words: Callable[[int, int], str]
) -> Iterator[Show]:
    if draws(console):
        bar = Bar(console, legible(what), columns)
        try:
            yield bar.show
        finally:
            bar.close()
        return
    said = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal said
        if total and time.monotonic() - said >= QUIET_SECONDS and not is_hushed(console):
            said = time.monotonic()
            sayer(console)(f"{what}: {words(done, total)}")

    yield show
