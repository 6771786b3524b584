"""A run has one owner: one that is moved, deleted or taken over under its trainer stops it, and is not touched."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from command_lab import ORDERS, Lab, Moment, Started, files, newest, story

from eigen2.errors import RunGone, RunMoved
from eigen2.evaluation.result import Evaluation
from eigen2.harness.lock import RunLock
from eigen2.harness.run import Run
from eigen2.harness.sync import cloud_of
from eigen2.store.checkpoints import Checkpoints, NewCheckpoint


def held_in_mid_run(lab: Lab, root: Path, *more: str) -> tuple[Started, Path]:
    """A trainer that was stopped after its second step, and its run."""
    overrides = (*ORDERS, "alg.generations=5", f"run.root={root}", "run.name=mine", *more)
    started = lab.start("train", *overrides, moments=(Moment("stepped", "SIGSTOP", 2),))
    started.wait_stopped()
    return started, root / "mine"


def test_a_trainer_whose_run_was_deleted_and_made_anew_stops_and_writes_nothing(
    lab: Lab, tmp_path: Path
) -> None:
    first, run = held_in_mid_run(lab, tmp_path)
    shutil.rmtree(run)
    second = lab.train("mine", (*ORDERS, "seed=8"), tmp_path)
    assert second == run
    before = files(run)
    first.signal(signal.SIGCONT)
    done = first.wait()
    assert done.code == 5, done.err
    assert done.err == (
        f"eigen2: {run} was deleted while this process worked there, and the path leads to another run now; nothing "
        "more is written. Start it again, or restore a copy of it.\n"
    )
    assert files(run) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "mine"]


def test_a_trainer_whose_run_is_trained_by_another_now_does_not_disturb_it(
    lab: Lab, tmp_path: Path, finished: Path
) -> None:
    first, run = held_in_mid_run(lab, tmp_path)
    shutil.rmtree(run)
    overrides = (*ORDERS, f"run.root={tmp_path}", "run.name=mine")
    second = lab.start("train", *overrides, moments=(Moment("stepped", "SIGSTOP", 2),))
    second.wait_stopped()
    first.signal(signal.SIGCONT)
    assert first.wait().code == 5
    second.signal(signal.SIGCONT)
    assert second.wait().code == 0
    assert story(run) == story(finished)
    assert lab.run("fingerprint", run).out == lab.run("fingerprint", finished).out


def test_a_run_that_is_moved_stops_its_trainer_and_goes_on_where_it_is(lab: Lab, tmp_path: Path) -> None:
    straight = lab.train("straight", (*ORDERS, "alg.generations=5"), tmp_path / "straight")
    first, run = held_in_mid_run(lab, tmp_path)
    moved = tmp_path / "elsewhere"
    run.rename(moved)
    first.signal(signal.SIGCONT)
    done = first.wait()
    assert done.code == 75, done.err
    assert done.err == (
        f"eigen2: {run} was moved to {moved} while this process worked there; nothing more is written. Step "
        f"{newest(moved)} is saved and `eigen2 train --resume {moved}` continues from there.\n"
    )
    assert not run.exists()
    assert json.loads((moved / "run.json").read_text())["status"] == "stopped"
    assert lab.run("train", "--resume", moved).code == 0
    assert story(moved) == story(straight)
    assert not run.exists()


def test_a_run_that_is_deleted_stops_its_trainer_and_does_not_appear_again(lab: Lab, tmp_path: Path) -> None:
    first, run = held_in_mid_run(lab, tmp_path)
    shutil.rmtree(run)
    first.signal(signal.SIGCONT)
    done = first.wait()
    assert done.code == 5, done.err
    assert f"{run} was deleted while this process worked there" in done.err
    assert not run.exists()


def test_a_lock_that_was_removed_stops_the_trainer(lab: Lab, tmp_path: Path) -> None:
    first, run = held_in_mid_run(lab, tmp_path)
    (run / "lock").unlink()
    first.signal(signal.SIGCONT)
    done = first.wait()
    assert done.code == 75, done.err
    assert f"the lock file of {run} was removed or replaced" in done.err
    assert lab.run("train", "--resume", run).code == 0


def test_saving_makes_no_run_directory(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        checkpoints.save(NewCheckpoint(1, {"x": 1}))
    with pytest.raises(FileNotFoundError):
        checkpoints.objects.put(b"x")
    assert list(tmp_path.iterdir()) == []


def test_every_write_of_an_owner_looks_first(tmp_path: Path) -> None:
    """Also when the path leads to another directory that has all the parts of a run."""
    run = Run(tmp_path / "mine")
    run.path.mkdir()
    with run.owned():
        run.note(status="running")
        run.checkpoints.save(NewCheckpoint(1, {"x": 1}))
        run.path.rename(tmp_path / "moved")
        other = Run(run.path)
        other.path.mkdir()
        with other.owned():
            other.checkpoints.save(NewCheckpoint(1, {"x": 2}))
            other.checkpoints.objects.put(b"on its way")
        other.log("events").write_text('{"kind":"start"}\n{"kind":"to', encoding="utf-8")
        before = files(other.path)
        evaluation = Evaluation({"split": "holdout"}, "", {})

        def open_logs() -> None:
            with run.journal({"events": 2}):
                pass

        for write in (
            lambda: run.note(status="done"),
            lambda: run.checkpoints.save(NewCheckpoint(2, {"x": 3})),
            lambda: run.checkpoints.objects.put(b"new"),
            lambda: run.checkpoints.objects.delete(*other.checkpoints.objects.list()),
            lambda: run.checkpoints.collect_garbage(),
            lambda: run.add_evaluation(evaluation),
            open_logs,
        ):
            with pytest.raises(RunMoved, match="was moved to"):
                write()
        assert files(other.path) == before


def test_an_evaluation_is_not_added_to_another_run_of_the_same_name(tmp_path: Path) -> None:
    run = Run(tmp_path / "mine")
    run.path.mkdir()
    with run.held():
        run.add_evaluation(Evaluation({"split": "holdout"}, "", {}))
        shutil.rmtree(run.path)
        run.path.mkdir()
        with pytest.raises(RunGone, match="leads to another run now"):
            run.add_evaluation(Evaluation({"split": "holdout"}, "", {}))
    assert list(run.path.iterdir()) == []


def test_a_directory_that_is_swapped_while_it_is_locked_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    run, flock = tmp_path / "mine", fcntl.flock
    run.mkdir()

    def swap(file: object, how: int) -> None:
        flock(file, how)  # type: ignore[arg-type]
        run.rename(tmp_path / "moved")
        run.mkdir()

    monkeypatch.setattr("fcntl.flock", swap)
    with pytest.raises(RunGone), RunLock(run):
        pass
    assert list(run.iterdir()) == []


def test_facts_of_another_run_are_not_written_over(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with run.owned():
        run.note(status="running")
        (tmp_path / "run.json").write_text(json.dumps({"id": "0" * 32, "status": "running"}))
        with pytest.raises(RunGone, match="that of another run"):
            run.note(status="done")
    assert json.loads((tmp_path / "run.json").read_text()) == {"id": "0" * 32, "status": "running"}


def test_another_writer_is_noticed_by_its_checkpoint_where_locks_do_not_hold(tmp_path: Path) -> None:
    first, second = Checkpoints(tmp_path), Checkpoints(tmp_path)
    first.save(NewCheckpoint(1, {"x": 1}))
    second.save(NewCheckpoint(2, {"x": 2}))
    before = files(tmp_path)
    with pytest.raises(RunMoved, match="was not written by this process"):
        first.save(NewCheckpoint(2, {"x": 3}))
    assert files(tmp_path) == before


def test_a_disk_that_cannot_tell_is_no_lost_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path)
    with run.owned():
        stat = os.stat
        monkeypatch.setattr(
            os, "stat", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "Input/output error"))
        )
        with pytest.raises(OSError, match="Input/output"):
            run.check_place()
        monkeypatch.setattr(os, "stat", stat)
        run.check_place()


def test_another_run_of_the_same_name_is_not_uploaded_as_this_one(lab: Lab, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    first, run = held_in_mid_run(lab, tmp_path / "runs", f"cloud.url=file://{bucket}")
    own = json.loads((run / "run.json").read_text())["id"]
    shutil.rmtree(run)
    lab.train("mine", (*ORDERS, "seed=8"), run.parent)
    before = files(run)
    first.signal(signal.SIGCONT)
    done = first.wait()
    assert done.code == 5, done.err
    assert files(run) == before
    sent = files(bucket / "mine")
    assert json.loads(sent.get("run.json", json.dumps({"id": own})))["id"] == own
    theirs = {text for name, text in before.items() if name.startswith("checkpoints/")}
    assert not theirs & set(sent.values())
    assert b"seed: 8" not in sent.get("config.yaml", b"")


def test_a_push_of_a_run_that_is_replaced_meanwhile_sends_nothing_of_the_other(
    tmp_path: Path, finished: Path
) -> None:
    run = Run(Path(shutil.copytree(finished, tmp_path / "mine")))
    (tmp_path / "bucket").mkdir()
    cloud = cloud_of(run, f"file://{tmp_path / 'bucket'}")
    with run.held():
        mirror = cloud.mirror(run)
        shutil.rmtree(run.path)
        shutil.copytree(finished, run.path)
        with pytest.raises(RunGone, match="leads to another run now"):
            mirror.send(everything=True)
    assert files(tmp_path / "bucket") == {}
