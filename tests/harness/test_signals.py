"""A signal stops a run in order: what was done is saved, the exit code is 75, and the resumed run is the same run."""

import json
import os
import signal
from pathlib import Path

import pytest
from command_lab import ORDERS, Done, Lab, Moment, newest, story

from eigen2.harness.journal import read_log


def stopped(lab: Lab, root: Path, *moments: Moment, more: tuple[str, ...] = ()) -> Done:
    return lab.run("train", *ORDERS, f"run.root={root}", "run.name=mine", *more, moments=moments)


def assert_resumes_to(lab: Lab, run: Path, finished: Path) -> None:
    done = lab.run("train", "--resume", run)
    assert done.code == 0, done.err
    assert story(run) == story(finished)
    assert lab.run("fingerprint", run).out == lab.run("fingerprint", finished).out


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2"])
def test_a_signal_lets_the_step_end_and_saves_it(lab: Lab, tmp_path: Path, name: str) -> None:
    done = stopped(lab, tmp_path, Moment("phase:validate", name, 2))
    run = tmp_path / "mine"
    assert done.code == 75
    assert done.err == (
        f"eigen2: Stopped by {name}; step 2 is saved and `eigen2 train --resume {run}` goes on from there.\n"
    )
    assert newest(run) == 2
    facts = json.loads((run / "run.json").read_text())
    assert (facts["status"], name in facts["reason"]) == ("stopped", True)


def test_the_resumed_run_is_the_same_run_and_knows_it_was_resumed(
    lab: Lab, tmp_path: Path, finished: Path
) -> None:
    assert stopped(lab, tmp_path, Moment("phase:validate", "SIGTERM", 2)).code == 75
    run = tmp_path / "mine"
    assert_resumes_to(lab, run, finished)
    facts = json.loads((run / "run.json").read_text())
    assert (facts["status"], facts["reason"], len(facts["resumes"])) == ("done", None, 1)


def test_without_grace_the_step_is_dropped(lab: Lab, tmp_path: Path, finished: Path) -> None:
    done = stopped(lab, tmp_path, Moment("phase:evaluate", "SIGTERM", 2), more=("run.grace_seconds=0",))
    run = tmp_path / "mine"
    assert done.code == 75
    assert "step 1 is saved" in done.err
    assert newest(run) == 1
    assert read_log(run / "events.jsonl")[-1]["kind"] == "dropped"
    assert_resumes_to(lab, run, finished)


def test_a_dropped_step_between_checkpoints_is_not_called_saved(
    lab: Lab, tmp_path: Path, finished: Path
) -> None:
    more = ("run.grace_seconds=0", "checkpoint.every=3")
    done = stopped(lab, tmp_path, Moment("phase:evaluate", "SIGTERM", 3), more=more)
    assert done.code == 75
    assert "step 0 is saved" in done.err
    assert_resumes_to(lab, tmp_path / "mine", finished)


def test_a_second_interrupt_exits_at_once(lab: Lab, tmp_path: Path, finished: Path) -> None:
    twice = (Moment("phase:evaluate", "SIGINT", 2), Moment("phase:validate", "SIGINT", 2))
    done = stopped(lab, tmp_path, *twice)
    assert done.code == 75
    assert "2/3" not in done.out
    assert newest(tmp_path / "mine") <= 1
    assert_resumes_to(lab, tmp_path / "mine", finished)


def test_a_second_termination_is_patient(lab: Lab, tmp_path: Path) -> None:
    twice = (Moment("phase:evaluate", "SIGTERM", 2), Moment("phase:validate", "SIGTERM", 2))
    assert stopped(lab, tmp_path, *twice).code == 75
    assert newest(tmp_path / "mine") == 2


def test_a_signal_in_the_last_step_ends_a_finished_run(lab: Lab, tmp_path: Path, finished: Path) -> None:
    done = stopped(lab, tmp_path, Moment("phase:validate", "SIGTERM", 3))
    assert done.code == 0
    assert story(tmp_path / "mine") == story(finished)


def test_json_of_a_stopped_run_leaves_stdout_empty(lab: Lab, tmp_path: Path) -> None:
    done = stopped(lab, tmp_path, Moment("phase:validate", "SIGTERM"), more=("--json",))
    assert (done.code, done.out) == (75, "")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_to_the_whole_group_stops_workers_and_run_in_order(
    lab: Lab, tmp_path: Path, number: signal.Signals
) -> None:
    workers = ("cluster=processes", "workers=2", "alg.block=2")
    started = lab.start(
        "train", *ORDERS, *workers, f"run.root={tmp_path}", "run.name=mine",
        moments=(Moment("phase:validate", "SIGSTOP", 2),),
    )  # fmt: skip
    started.wait_stopped()
    os.killpg(started.pid, number)
    started.signal(signal.SIGCONT)
    done = started.wait()
    assert done.code == 75, done.err
    assert "Traceback" not in done.err
    assert f"Stopped by {number.name}" in done.err
