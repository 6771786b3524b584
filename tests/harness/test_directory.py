"""A run has a directory of its own with a name people can read, wherever the command is called."""

import errno
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eigen2.config import load_config
from eigen2.errors import ConfigError, DamagedStateError, ResourceError
from eigen2.harness.directory import create_run, find_run
from eigen2.harness.leftovers import temporary_name
from eigen2.store import durable


def test_a_run_is_named_after_algorithm_data_and_seed(tmp_path: Path) -> None:
    run = create_run(load_config([f"run.root={tmp_path}", "seed=3"]))
    assert run.path == tmp_path / "erl_sp20_seed3"
    assert run.read_config().seed == 3


def test_a_file_gives_its_name_and_a_gymnasium_task_its_id(tmp_path: Path) -> None:
    file = create_run(load_config([f"run.root={tmp_path}", "env.data=/somewhere/my_prices.csv"]))
    task = create_run(load_config([f"run.root={tmp_path}", "env=gym", "env.id=ALE/Thing-v5"]))
    assert (file.name, task.name) == ("erl_my_prices_seed7", "erl_ALE-Thing-v5_seed7")


def test_a_taken_name_gets_a_number(tmp_path: Path) -> None:
    config = load_config([f"run.root={tmp_path}", "run.name=mine"])
    assert [create_run(config).name for _ in range(3)] == ["mine", "mine-2", "mine-3"]


def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    assert create_run(load_config([f"run.root={tmp_path}", "run.name=mine"])).name == "mine-2"
    assert (tmp_path / "mine").read_text() == "precious"


def test_runs_created_at_the_same_time_get_different_directories(tmp_path: Path) -> None:
    config = load_config([f"run.root={tmp_path}"])
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: create_run(config), range(24)))
    assert len({run.path for run in runs}) == 24
    assert (tmp_path / "latest").resolve() in {run.path for run in runs}
    assert not list(tmp_path.glob(".*"))


def test_latest_points_to_the_newest_run(tmp_path: Path) -> None:
    config = load_config([f"run.root={tmp_path}"])
    create_run(config)
    newest = create_run(config)
    assert find_run(None, tmp_path).path == newest.path
    assert (tmp_path / "latest").readlink() == Path(newest.name)


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_what_stands_in_the_place_of_the_link_to_the_newest_run_is_left_alone(
    tmp_path: Path, kind: str
) -> None:
    """`cp -rL runs elsewhere` makes a directory of the link."""
    config = load_config([f"run.root={tmp_path}"])
    run, latest = create_run(config), tmp_path / "latest"
    latest.unlink()
    if kind == "file":
        latest.write_text("precious")
    else:
        shutil.copytree(run.path, latest)
    with pytest.raises(ConfigError, match=r"latest is not the link to the newest run"):
        create_run(config)
    with pytest.raises(ConfigError, match=r"latest is not the link to the newest run"):
        find_run(None, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {run.name, "latest"}
    assert latest.is_dir() if kind == "directory" else latest.read_text() == "precious"


def test_a_relative_root_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = create_run(load_config(["run.root=some/where"]))
    assert run.path == tmp_path / "some" / "where" / "erl_sp20_seed7"
    monkeypatch.chdir("/")
    assert run.read_config().seed == 7


def test_a_run_is_found_by_directory_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create_run(load_config([f"run.root={tmp_path}", "run.name=mine"]))
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "./mine", str(tmp_path / "mine"), "latest"):
        assert find_run(name, tmp_path).path == run.path


def test_a_stranger_of_the_same_name_does_not_hide_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(load_config([f"run.root={tmp_path / 'runs'}", "run.name=mine"]))
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_run("mine", Path("runs")).path == run.path


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run directory"):
        find_run(str(tmp_path), tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "a/b", "..", ".", "latest", ".hidden", "two\nlines", "tab\t", " ", "end ", "\x1b[31m", "-rf", "\udcff", "x" * 201,
        "\u00fc" * 101,
    ],
)  # fmt: skip
def test_a_name_that_cannot_be_a_directory_is_refused(tmp_path: Path, name: str) -> None:
    config = load_config([f"run.root={tmp_path}"])
    named = config.model_copy(update={"run": config.run.model_copy(update={"name": name})})
    with pytest.raises(ConfigError, match=r"run\.name"):
        create_run(named)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["seed: [", "seed: minus one", "unknown: 1", "\udcff"])
def test_a_damaged_config_is_refused_by_its_path(tmp_path: Path, text: str) -> None:
    run = create_run(load_config([f"run.root={tmp_path}"]))
    run.config_file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DamagedStateError, match=str(run.config_file)):
        run.read_config()


def test_when_the_newest_run_is_deleted_the_one_before_it_is_the_newest(tmp_path: Path) -> None:
    for number, name in enumerate(("first", "second", "third")):
        made = create_run(load_config([f"run.root={tmp_path}", f"run.name={name}"]))
        os.utime(made.path, (number, number))
    assert find_run(None, tmp_path).name == "third"
    shutil.rmtree(tmp_path / "third")
    assert find_run(None, tmp_path).name == "second"
    for name in ("first", "second"):
        shutil.rmtree(tmp_path / name)
    with pytest.raises(ConfigError, match="There is no run in"):
        find_run(None, tmp_path)


def test_what_a_killed_process_left_is_removed_and_what_a_live_one_makes_is_not(tmp_path: Path) -> None:
    config = load_config([f"run.root={tmp_path}", "run.name=mine"])
    dead = subprocess.run(
        [sys.executable, "-c", "from eigen2.harness.leftovers import temporary_name as n; print(n('.new-'), n('.latest-'))"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    (tmp_path / dead[0]).mkdir()
    (tmp_path / dead[0] / "config.yaml").write_text("")
    (tmp_path / dead[1]).symlink_to("nowhere")
    live, foreign, old, ours = (
        tmp_path / name
        for name in (
            temporary_name(".new-"),
            ".new-1-1-000000000000-0123456789abcdef",
            ".new-0123456789abcdef",
            ".mine",
        )
    )
    for path in (live, foreign, old, ours):
        path.mkdir()
    long_ago = time.time() - 100_000
    os.utime(old, (long_ago, long_ago))
    create_run(config)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"mine", "latest", live.name, foreign.name, ".mine"}


def test_the_parents_of_a_new_root_are_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = set[Path]()
    real = durable.sync_directory

    def noted(path: Path) -> None:
        synced.add(path)
        real(path)

    monkeypatch.setattr(durable, "sync_directory", noted)
    create_run(load_config([f"run.root={tmp_path / 'deep' / 'runs'}"]))
    assert {tmp_path, tmp_path / "deep"} <= synced


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EIO, ResourceError), (errno.ENOSPC, ResourceError), (errno.EDQUOT, ResourceError),
        (errno.ESTALE, ResourceError), (errno.EROFS, ConfigError), (errno.EACCES, ConfigError),
    ],
)  # fmt: skip
def test_a_disk_that_takes_no_run_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number), str(tmp_path))

    monkeypatch.setattr("eigen2.harness.run.write_atomically", fail)
    with pytest.raises(kind, match=os.strerror(number)):
        create_run(load_config([f"run.root={tmp_path}"]))
    assert list(tmp_path.iterdir()) == []
