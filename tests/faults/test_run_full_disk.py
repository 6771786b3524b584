"""A full disk: foreseen when it can be, survived when it cannot, and never the end of the last good checkpoint."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_lab import ORDERS, Lab, Moment, newest, story

from eigen2.harness.journal import read_log
from eigen2.harness.run import Run
from eigen2.store.integrity import verify

LONG = (*ORDERS, "alg.generations=5")
CANNOT = "Checkpoints cannot be written"
AGAIN = "Checkpoints can be written again"


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the small disk is mounted, for those who live in its mount namespace."""
    return tmp_path_factory.mktemp("disk")


@pytest.fixture(scope="module")
def cramped(tmp_path_factory: pytest.TempPathFactory, small_disk: Path) -> Iterator[Lab]:
    """A laboratory whose commands find a file system of 16 MB at `small_disk`; nobody else sees it."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small disk needs root and util-linux")
    mount = (
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=16m none "$0" && exec "$@"',
        str(small_disk),
    )
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this container may not mount a tmpfs")
    with Lab(tmp_path_factory.mktemp("cramped"), prefix=mount, warm_up=(ORDERS,)) as lab:
        yield lab


@pytest.fixture(scope="module")
def straight(cramped: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that always had room."""
    return cramped.train("straight", LONG, tmp_path_factory.mktemp("straight"))


@pytest.fixture
def disk(cramped: Lab, small_disk: Path) -> Iterator[Path]:
    """The small disk, empty, as its inhabitants see it."""
    yield small_disk
    for path in seen(cramped, small_disk).iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def seen(lab: Lab, path: Path) -> Path:
    """The same place, seen from outside the mount namespace."""
    return Path(f"/proc/{lab.pid}/root{path}")


def fill(disk: Path, on: str, count: int) -> Moment:
    return Moment(on, "fill", count, path=str(disk / "ballast"))


def begin(lab: Lab, disk: Path, *moments: Moment) -> tuple[int, str, str]:
    done = lab.run("train", *LONG, f"run.root={disk}", "run.name=mine", moments=moments)
    assert "Traceback" not in done.err
    return done.code, done.out, done.err


def test_training_goes_on_and_says_so_once_until_there_is_room_again(
    cramped: Lab, disk: Path, straight: Path
) -> None:
    free = Moment("stepped", "free", 4, path=str(disk / "ballast"))
    code, out, err = begin(cramped, disk, fill(disk, "stepped", 1), free)
    run = seen(cramped, disk / "mine")
    assert (code, err) == (0, "")
    assert (out.count(CANNOT), out.count(AGAIN)) == (1, 1)
    kinds = [event["kind"] for event in read_log(run / "events.jsonl")]
    assert kinds == ["start", "save_failed", "save_recovered"]
    assert story(run) == story(straight)
    assert cramped.run("fingerprint", disk / "mine").out == cramped.run("fingerprint", straight).out
    assert verify(Run(run).checkpoints).ok


def test_a_last_save_that_cannot_be_made_exits_4_and_a_resume_makes_up_for_it(
    cramped: Lab, disk: Path, straight: Path
) -> None:
    code, out, err = begin(cramped, disk, fill(disk, "stepped", 3))
    run = seen(cramped, disk / "mine")
    assert code == 4
    assert out.count(CANNOT) == 1
    assert "last good one is untouched" in err.splitlines()[-1]
    assert "5/5" in out
    assert 1 <= newest(run) <= 3
    assert verify(Run(run).checkpoints).ok
    seen(cramped, disk / "ballast").unlink()
    done = cramped.run("train", "--resume", disk / "mine")
    assert done.code == 0, done.err
    assert story(run) == story(straight)
    assert cramped.run("fingerprint", disk / "mine").out == cramped.run("fingerprint", straight).out


def test_a_signal_on_a_full_disk_does_not_pretend_that_the_step_is_saved(
    cramped: Lab, disk: Path, straight: Path
) -> None:
    stop = Moment("phase:validate", "SIGTERM", 4)
    code, _, err = begin(cramped, disk, fill(disk, "stepped", 2), stop)
    assert code == 4
    assert "could not be written" in err
    seen(cramped, disk / "ballast").unlink()
    assert cramped.run("train", "--resume", disk / "mine").code == 0
    assert story(seen(cramped, disk / "mine")) == story(straight)


def test_a_resume_on_a_full_disk_is_one_sentence_and_harms_nothing(
    cramped: Lab, disk: Path, straight: Path
) -> None:
    code, _, _ = begin(cramped, disk, Moment("stepped", "SIGKILL", 3))
    assert code < 0
    run, ballast = seen(cramped, disk / "mine"), seen(cramped, disk / "ballast")
    ballast.write_bytes(bytes(shutil.disk_usage(run).free))
    done = cramped.run("train", "--resume", disk / "mine")
    assert done.code == 4
    assert "Traceback" not in done.err
    assert verify(Run(run).checkpoints).ok
    ballast.unlink()
    assert cramped.run("train", "--resume", disk / "mine").code == 0
    assert story(run) == story(straight)


def test_an_evaluation_that_cannot_be_recorded_is_not_shown(cramped: Lab, disk: Path) -> None:
    code, _, err = begin(cramped, disk)
    assert code == 0, err
    run, ballast = seen(cramped, disk / "mine"), seen(cramped, disk / "ballast")
    # Fewer bytes than the line needs are left on its last page.
    ballast.write_bytes(bytes(shutil.disk_usage(run).free))
    before = (run / "evaluations.jsonl").read_bytes()
    for _ in range(3):
        done = cramped.run("evaluate", disk / "mine", "--split", "holdout", "--json")
        assert (done.code, done.out) == (4, "")
        assert "could not be recorded" in done.err
        assert (run / "evaluations.jsonl").read_bytes() == before
    ballast.unlink()
    done = cramped.run("evaluate", disk / "mine", "--split", "holdout", "--json")
    assert done.code == 0, done.err
    assert (run / "evaluations.jsonl").read_bytes().startswith(before)
    assert [record["split"] for record in read_log(run / "evaluations.jsonl")] == ["validation", "holdout"]


def test_a_run_that_cannot_fit_is_refused_before_anything_is_written(cramped: Lab, disk: Path) -> None:
    done = cramped.run(
        "train", *ORDERS, f"run.root={disk / 'runs'}", "replay.capacity=1000000", "alg.generations=10000"
    )
    assert done.code == 4
    assert str(disk / "runs") in done.err
    assert "are free" in done.err
    assert list(seen(cramped, disk).iterdir()) == []
