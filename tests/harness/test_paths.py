"""Any working directory will do, and relative paths mean what they mean where they are typed."""

import os
from pathlib import Path

import pytest
import yaml
from command_lab import WORLD_MODEL, Lab, Moment, story


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Where a run is started, and another place where it goes on."""
    for name in ("start", "start/away"):
        (tmp_path / name).mkdir()
    return tmp_path / "start", tmp_path / "start" / "away"


def test_a_relative_log_dir_is_below_the_working_directory_and_a_resume_finds_it_from_another(
    lab: Lab, places: tuple[Path, Path]
) -> None:
    start, away = places
    options = ("--log-dir", "logs (1)/run=2", "run.name=mine")
    killed = lab.run("train", *WORLD_MODEL, *options, cwd=start, moments=(Moment("stepped", "SIGKILL", 2),))
    run = start / "logs (1)" / "run=2" / "mine"
    assert killed.killed
    assert run.is_dir()
    assert yaml.safe_load((run / "config.yaml").read_text())["run"]["root"] == str(run.parent)
    log_dir = ("--log-dir", "../logs (1)/run=2")
    done = lab.run("train", "--resume", "mine", *log_dir, "--json", cwd=away)
    assert done.code == 0, done.err
    assert done.json["run"] == str(run)
    assert lab.run("train", "--resume", *log_dir, "--json", cwd=away).json["run"] == str(run)
    assert [found["name"] for found in lab.run("runs", *log_dir, "--json", cwd=away).json] == ["mine"]
    assert lab.run("export", "mine", *log_dir, "--to", "files", cwd=away).code == 0
    assert [path.name for path in away.iterdir()] == ["files"]
    straight = lab.train("straight", WORLD_MODEL, start)
    assert story(run) == story(straight)


def test_log_dir_and_run_root_are_one_thing(lab: Lab, places: tuple[Path, Path]) -> None:
    start, away = places
    facts = lab.run("train", "--show-config", "--json", "--log-dir", "here", cwd=start).json
    assert facts["config"]["run"]["root"] == "here"
    done = lab.run("train", "--log-dir", "here", "run.root=there", cwd=start)
    assert done.code == 2
    assert "--log-dir" in done.err
    assert os.listdir(start) == [away.name]
