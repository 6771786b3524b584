"""A run is deleted and made again under a resume that is held at some operation: nothing of the old goes into the new."""

import shutil
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest
from command_lab import ORDERS, Lab, Moment, files


@pytest.fixture
def unended(lab: Lab, tmp_path: Path) -> Path:
    """A run whose steps are all taken and whose end is missing: its resume opens it, ends it and evaluates it."""
    run = lab.train("mine", ORDERS, tmp_path / "unended")
    (run / "checkpoints" / "final.json").unlink()
    (run / "evaluations.jsonl").unlink()
    return run


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param(range(20, 260, 30), id="some"),
        pytest.param(range(2, 1000), id="all", marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
    ],
)
def test_a_resume_writes_nothing_into_a_run_that_took_the_place_of_its_own(
    lab: Lab, tmp_path: Path, unended: Path, operations: Iterable[int]
) -> None:
    other = lab.train("other", (*ORDERS, "seed=8"), tmp_path)
    refused = 0
    for operation in operations:
        root = tmp_path / f"at-{operation}"
        run = Path(shutil.copytree(unended, root / "mine"))
        started = lab.start("train", "--resume", run, moments=(Moment("operation", "SIGSTOP", operation),))
        if not started.is_held():
            break
        opened = "resumed" in started.out.read_text(encoding="utf-8")
        recorded = (run / "evaluations.jsonl").exists() and (run / "evaluations.jsonl").stat().st_size > 0
        shutil.rmtree(run)
        shutil.copytree(other, run)
        before = files(run)
        started.signal(signal.SIGCONT)
        done = started.wait()
        if opened:
            assert files(run) == before, operation
            assert done.code in (5, 75) or (recorded and done.code == 0), (operation, done.code, done.err)
            refused += done.code > 0
        shutil.rmtree(root)
    assert refused > 3
