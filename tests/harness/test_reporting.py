"""The page at the end of a run: there by itself, and never a reason to fail."""

import io
import json
from pathlib import Path

import pytest
from command_lab import ORDERS, Lab
from rich.console import Console

from eigen2.errors import ResourceError, RunGone, StoppedEarly
from eigen2.harness.reporting import renew_page, reported
from eigen2.harness.run import Run
from eigen2.harness.training import Asked, start_run
from eigen2.harness.verifying import verify_run

ON = (*ORDERS, "run.report=true")


def failing(run: Path) -> Path:
    raise ZeroDivisionError("no pictures today")


def kinds(run: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in (run / "events.jsonl").read_text().splitlines()]


def test_a_run_ends_with_its_page_and_an_evaluation_renews_it(lab: Lab, tmp_path: Path) -> None:
    run = lab.train("pictured", ON, tmp_path)
    first = (run / "report.html").read_bytes()
    assert b"Evaluation: validation" in first
    assert verify_run(Run(run)).ok
    facts = json.loads((run / "run.json").read_text())
    assert facts["forecast"]["components"]["report"]["disk_bytes"] == pytest.approx(len(first), rel=0.2)
    assert facts["actual"]["disk_bytes"] > len(first)
    assert lab.run("evaluate", run, "--split", "holdout").code == 0
    assert b"Evaluation: holdout" in (run / "report.html").read_bytes()


def test_a_page_that_fails_does_not_fail_the_run(tmp_path: Path) -> None:
    shown = io.StringIO()
    facts = start_run(
        [*ON, f"run.root={tmp_path}", "run.name=one"], Console(file=shown, width=400), Asked(page=failing)
    )
    assert facts["evaluation"]["split"] == "validation"
    assert shown.getvalue().count("The report could not be written") == 1
    assert "no pictures today" in shown.getvalue()
    run = Run(tmp_path / "one")
    assert run.metadata()["status"] == "done"
    assert kinds(run.path)[-1] == "report_failed"
    assert verify_run(run).ok


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "run").mkdir()
    return Run(tmp_path / "run")


class Painter:
    def __init__(self) -> None:
        self.made: list[Path] = []
        self.said: list[str] = []

    def __call__(self, run: Path) -> Path:
        self.made.append(run)
        return run / "report.html"


def test_a_run_that_was_stopped_has_its_page_too(run: Run) -> None:
    painter = Painter()
    with pytest.raises(StoppedEarly), reported(run, painter, painter.said.append):
        raise StoppedEarly("stopped")
    assert painter.made == [run.path]
    assert painter.said == [f"report {run.path / 'report.html'}"]


@pytest.mark.parametrize("error", [RunGone("gone"), ResourceError("full"), KeyboardInterrupt()])
def test_a_run_that_failed_is_left_as_it_is(run: Run, error: BaseException) -> None:
    painter = Painter()
    with pytest.raises(type(error)), reported(run, painter, painter.said.append):
        raise error
    assert painter.made == []


def test_a_page_is_renewed_only_where_there_is_one(run: Run) -> None:
    renew_page(run, failing, pytest.fail)
    (run.path / "report.html").write_text("old")
    said: list[str] = []
    renew_page(run, failing, said.append)
    assert len(said) == 1
    assert (run.path / "report.html").read_text() == "old"
