"""The page about a run, written as the last thing that a run does; whether that works is no matter of training.

Who makes the page is handed in: the harness knows no pictures.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eigen2.errors import DamagedStateError, Eigen2Error, RunGone, StoppedEarly
from eigen2.harness.outcome import note_actual
from eigen2.harness.run import Run
from eigen2.store.durable import append_line

MakePage = Callable[[Path], Path]
"""From a run directory to the page that was written."""
PAGE_BYTES = 720_000
"""Of a page about a short run, most of it the library that draws."""
PAGE_STEP_BYTES = 500
"""Of the curves of a step, up to PAGE_STEPS."""
PAGE_STEPS = 1_500
PAGE_MEMORY = 100_000_000
FAILED = "report_failed"


def page_bytes(steps: int) -> int:
    return PAGE_BYTES + PAGE_STEP_BYTES * min(steps, PAGE_STEPS)


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
    """A failure is said and kept in events.jsonl, and is nothing more."""
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
        # A disk that is full takes no event either; it was said.
        with suppress(OSError, DamagedStateError, RunGone):
            run.check_place()
            append_line(run.log("events"), (json.dumps(record, separators=(",", ":")) + "\n").encode())
        return False
    say(f"report {page}")
    return True


def renew_page(run: Run, make: MakePage, say: Callable[[str], None]) -> None:
    """A page that a run has shows its newest evaluation too."""
    if (run.path / "report.html").is_file():
        write_page(run, make, say)
