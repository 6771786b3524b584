"""Nothing committed is lost: kill -9 at any instant, a power cut, a full disk, a failing fsync."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

LAB = Path(__file__).parents[1] / "store" / "crash_lab.py"
Fault = Callable[[str], tuple[str, ...]]
RANDOM_FSYNC = "enable_random name=posix/io/sync/fsync,probability={},failinfo=5"


def experiment(*arguments: str | Path, prefix: tuple[str, ...] = ()) -> dict[str, int]:
    """Run one experiment of the crash lab; a broken promise fails the test with the lab's own words."""
    command = [*prefix, sys.executable, str(LAB), *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture
def private_mounts() -> tuple[str, ...]:
    """A prefix under which mounts are private to the command and vanish with it."""
    prefix = ("unshare", "--mount")
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    if shutil.which("unshare") is None or shutil.which("mkfs.ext4") is None:
        pytest.skip("needs the packages util-linux and e2fsprogs")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this container may not create a mount namespace")
    return prefix


@pytest.fixture
def small_tmpfs(private_mounts: tuple[str, ...], tmp_path: Path) -> tuple[str, ...]:
    """A prefix under which tmp_path is a file system of three megabytes."""
    mount = 'mount -t tmpfs -o size=3m none "$0" && exec "$@"'
    return (*private_mounts, "sh", "-c", mount, str(tmp_path))


def test_a_kill_before_any_file_operation_loses_nothing(tmp_path: Path) -> None:
    found = experiment("operations", tmp_path / "run")
    assert found["crashes"] > 80


def test_random_kills_lose_nothing(tmp_path: Path) -> None:
    assert experiment("random", tmp_path / "run", "10", "1")["crashes"] == 10


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [2, 3])
def test_torture_by_random_kills_loses_nothing(tmp_path: Path, seed: int) -> None:
    found = experiment("random", tmp_path / "run", "100", str(seed))
    assert found["crashes"] == 100
    assert found["newest"] > 20


def test_a_full_disk_leaves_the_last_good_checkpoint_untouched(
    tmp_path: Path, small_tmpfs: tuple[str, ...]
) -> None:
    assert experiment("full", tmp_path, prefix=small_tmpfs) == {"predicted": 3, "hit": 3}


def test_a_disk_that_runs_full_anywhere_in_a_save_loses_nothing(
    tmp_path: Path, small_tmpfs: tuple[str, ...]
) -> None:
    found = experiment("sizes", tmp_path, prefix=small_tmpfs)
    assert found["failures"] > 5
    assert found["saved"] > 5


@pytest.mark.timeout(900)
def test_a_failing_fsync_is_reported_and_loses_nothing(tmp_path: Path, with_fault: Fault) -> None:
    prefix = with_fault(RANDOM_FSYNC.format(0.03))
    found = experiment("fsync", tmp_path / "run", "40", prefix=prefix)
    assert found["failures"] > 0
    assert found["committed"] > 0


@pytest.mark.timeout(900)
def test_no_save_succeeds_when_every_fsync_fails(tmp_path: Path, with_fault: Fault) -> None:
    experiment("fsync", tmp_path / "run", "3")
    prefix = with_fault(RANDOM_FSYNC.format(1))
    found = experiment("fsync", tmp_path / "run", "3", prefix=prefix)
    assert found == {"failures": 3, "committed": -1}


@pytest.mark.parametrize(
    ("saves", "every"),
    [("3", "7"), pytest.param("6", "1", marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
)
def test_a_power_cut_loses_nothing_committed(
    tmp_path: Path, private_mounts: tuple[str, ...], saves: str, every: str
) -> None:
    found = experiment("power", tmp_path, saves, every, prefix=private_mounts)
    assert found["committed"] == int(saves) - 1
    assert found["cuts"] > 10
    assert found["unsynced_survived"] == 0
