"""A signal stops a run in order: what was done is saved, the exit code is 75, and the resumed run is the same run."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_lab import ORDERS, Done, Lab, Moment, newest, story
from rich.console import Console

from eigen2.errors import StoppedEarly
from eigen2.harness.journal import read_log
from eigen2.harness.signals import Interrupted, StopSignals, stoppable
from eigen2.harness.training import resume_run, start_run


def stopped(lab: Lab, root: Path, *moments: Moment, more: tuple[str, ...] = ()) -> Done:
    return lab.run("train", *ORDERS, f"run.root={root}", "run.name=mine", *more, moments=moments)


def assert_resumes_to(lab: Lab, run: Path, finished: Path) -> None:
    done = lab.run("train", "--resume", run)
    assert done.code == 0, done.err
    assert story(run) == story(finished)
    assert lab.run("fingerprint", run).out == lab.run("fingerprint", finished).out


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"])
def test_a_signal_lets_the_step_end_and_saves_it(lab: Lab, tmp_path: Path, name: str) -> None:
    done = stopped(lab, tmp_path, Moment("phase:validate", name, 2))
    run = tmp_path / "mine"
    assert done.code == 75
    assert done.err == (
        f"eigen2: Stopped by {name}; step 2 is saved and `eigen2 train --resume {run}` continues from there.\n"
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
    assert "Stopped by SIGINT and then SIGINT, at once" in done.err
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


def interrupt(name: str) -> Callable[..., Any]:
    """A function that gets a signal instead of doing its work."""

    def interrupted(*_: object, **__: object) -> None:
        os.kill(os.getpid(), getattr(signal, name))
        raise AssertionError("the signal did not break it off")

    return interrupted


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_while_a_run_is_opened_ends_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("eigen2.harness.planning.Planner.opened", interrupt(name))
    with pytest.raises(StoppedEarly) as stopped:
        start_run([*ORDERS, f"run.root={tmp_path}"], Console(file=io.StringIO()))
    assert str(stopped.value) == f"Stopped by {name} before the run began; nothing is lost: start it again."
    assert stopped.value.exit_code == 75
    assert list(tmp_path.iterdir()) == []


def test_a_signal_during_the_final_evaluation_leaves_a_complete_run_that_can_be_evaluated(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("eigen2.algorithms.erl.experiment.MarketExperiment.evaluate", interrupt("SIGTERM"))
        words = [*ORDERS, f"run.root={tmp_path}", "run.name=mine"]
        with pytest.raises(StoppedEarly, match="during the final evaluation; training is complete"):
            start_run(words, Console(file=io.StringIO()))
    run = tmp_path / "mine"
    assert story(run) == story(finished)
    assert json.loads((run / "run.json").read_text())["status"] == "done"
    assert not (run / "evaluations.jsonl").exists()
    done = lab.run("train", "--resume", run, "--json")
    assert done.code == 0, done.err
    assert len(read_log(run / "evaluations.jsonl")) == 1


def test_a_signal_while_a_resume_is_opened_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: Path
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "mine"))
    monkeypatch.setattr("eigen2.harness.training.restore", interrupt("SIGHUP"))
    with pytest.raises(
        StoppedEarly, match=f"before training began; `eigen2 train --resume {run}` continues it"
    ):
        resume_run(str(run), [], Console(file=io.StringIO()))


def test_a_run_that_was_started_with_nohup_outlives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.received is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_error_that_an_interruption_turns_into_is_a_stop() -> None:
    def interrupted_library() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        except Interrupted:
            raise KeyError("half-made") from None

    with pytest.raises(StoppedEarly, match="Stopped by SIGTERM before the run began"), stoppable():
        interrupted_library()
    with pytest.raises(KeyError), stoppable():
        raise KeyError("no signal")


def test_a_signal_behind_the_end_does_not_change_the_exit_code() -> None:
    """A second one may come when the sentence is said already, and Python is about to end."""
    script = (
        "import os, signal\n"
        "from eigen2.harness.signals import stoppable\n"
        "try:\n"
        "    with stoppable(final=True):\n"
        "        os.kill(os.getpid(), signal.SIGUSR1)\n"
        "except Exception as error:\n"
        "    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGHUP):\n"
        "        os.kill(os.getpid(), number)\n"
        "    raise SystemExit(error.exit_code)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 75
