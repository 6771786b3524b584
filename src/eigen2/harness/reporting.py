"""The page about a run, written as the last thing that a run does; whether that works is no matter of training.

Who makes the page is handed in: the harness knows no pictures.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eigen2.algorithms.contract import Experiment
from eigen2.errors import ConfigError, DamagedStateError, Eigen2Error, RunGone, StoppedEarly
from eigen2.harness.outcome import note_actual
from eigen2.harness.run import Run
from eigen2.store.durable import append_line
from eigen2.store.layout import FILM

MakePage = Callable[[Path], Path]
"""From a run directory to the page that was written."""
PAGE_BYTES = 690_000
"""Of a page about a short run, most of it the library that draws."""
PAGE_STEP_BYTES = 500
"""Of the curves of a step, up to PAGE_STEPS."""
PAGE_STEPS = 1_500
PAGE_EVALUATION = 1_000_000
"""Of long evaluations of wide markets only a part is drawn."""
PAGE_MEMORY = 100_000_000
FAILED = "report_failed"
FILM_SECONDS = 6.0
FILM_PATIENCE = 300.0
"""Seconds that drawing may take."""
FILM_MEMORY = 500_000_000


def page_bytes(steps: int, evaluation: int) -> int:
    """Of a run of so many steps whose evaluation takes so many bytes: in the page it is text."""
    return PAGE_BYTES + PAGE_STEP_BYTES * min(steps, PAGE_STEPS) + 3 * min(evaluation, PAGE_EVALUATION)


@contextmanager
def reported(run: Run, make: MakePage, say: Callable[[str], None]) -> Iterator[None]:
    """On the way out of a run that is done or was stopped, `make` its page."""
    try:
        yield
    except StoppedEarly:
        write_page(run, make, say)
        raise
    if write_page(run, make, say):
        # The page is a part of what the run took.
        note_actual(run, say)


def write_page(run: Run, make: MakePage, say: Callable[[str], None]) -> bool:
    """A failure is reported and kept in events.jsonl, and has no other effect."""
    try:
        run.check_place()
        page = make(run.path)
    except RunGone:
        return False
    except Exception as error:  # noqa: BLE001 - whatever a page fails of, training is done and stays done
        words = str(error) if isinstance(error, Eigen2Error) else repr(error)
        sentence = f"The report could not be written ({words[:300]}); `eigen2 report {run.path}` tries again."
        say(sentence)
        record = {"time": round(time.time(), 3), "kind": FAILED, "message": sentence}
        # A full disk refuses the event too; it was reported already.
        with suppress(OSError, DamagedStateError, RunGone):
            line = (json.dumps(record, separators=(",", ":")) + "\n").encode()
            append_line(run.log("events"), line, run.check_place)
        return False
    say(f"report {page}")
    return True


def write_film(run: Run, experiment: Experiment, say: Callable[[str], None]) -> None:
    """The champion of a control task at work, for the page; drawn by a process of its own, because what draws may crash."""
    try:
        if not experiment.champion().can_be_filmed:
            return
    except ConfigError:
        return
    command = [
        sys.executable,
        "-m",
        "eigen2",
        "film",
        str(run.path),
        "--out",
        str(run.path / FILM),
        "--small",
    ]
    command += [
        "--seconds",
        str(FILM_SECONDS),
        *(word for typed in sorted(run.typed) for word in ("--env-id", typed)),
    ]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=FILM_PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        say(f"There is no film in the report ({type(error).__name__}).")
        return
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [
            f"exit code {done.returncode}"
        ]
        say(f"There is no film in the report: {words[0].removeprefix('eigen2: ')}")


def renew_page(run: Run, make: MakePage, say: Callable[[str], None]) -> None:
    """A page that a run has shows its newest evaluation too."""
    if (run.path / "report.html").is_file():
        write_page(run, make, say)
