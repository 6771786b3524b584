"""A stored config may be a stranger's: it imports no code and sends a run nowhere that the user has not named."""

import shutil
from pathlib import Path

import pytest
import yaml
from command_lab import PENDULUM, Lab

EVIL = "own_tasks:Pendulum-v1"


@pytest.fixture(scope="module")
def swing(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run in a registered environment."""
    return lab.train("swing", PENDULUM, tmp_path_factory.mktemp("swing"))


@pytest.fixture
def evil(swing: Path, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """The same run with a config that names a module, and an environment in which importing it is seen."""
    run = Path(shutil.copytree(swing, tmp_path / "evil"))
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["env"]["id"] = EVIL
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    return run, {"OWN_TASKS_IMPORTED": str(tmp_path / "imported")}


@pytest.mark.parametrize(
    "command", [("train", "--resume"), ("evaluate",), ("export",), ("verify-resume",)], ids=lambda c: c[0]
)
def test_a_stored_config_imports_no_module(
    lab: Lab, evil: tuple[Path, dict[str, str]], command: tuple[str, ...]
) -> None:
    run, environment = evil
    done = lab.run(*command, run, environment=environment)
    assert done.code == 2, done.err
    assert f"--env-id {EVIL}" in done.err
    assert "Traceback" not in done.err
    assert not (run.parent / "imported").exists()


def test_a_module_that_the_user_names_is_imported(lab: Lab, tmp_path: Path) -> None:
    words = tuple(f"env.id={EVIL}" if word.startswith("env.id=") else word for word in PENDULUM)
    there = {"OWN_TASKS_IMPORTED": str(tmp_path / "imported")}
    options = ("--log-dir", tmp_path, "run.name=mine")
    assert lab.run("train", *words, *options, environment=there).code == 0
    assert (tmp_path / "imported").exists()
    mine = tmp_path / "mine"
    assert lab.run("evaluate", mine, environment=there).code == 2
    assert lab.run("evaluate", mine, "--env-id", EVIL, environment=there).code == 0
    longer = ("alg.generations=4",)
    assert lab.run("train", "--resume", mine, *longer, environment=there).code == 2
    done = lab.run("train", "--resume", mine, f"env.id={EVIL}", *longer, environment=there)
    assert done.code == 0, done.err


def test_a_run_is_not_sent_to_a_place_that_only_its_config_names(
    lab: Lab, finished: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "runs" / "stranger"))
    config = yaml.safe_load((run / "config.yaml").read_text())
    place = f"file://{tmp_path}/home"
    config["cloud"]["url"] = place
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    for command in (("train", "--resume", run), ("sync", "push", run), ("sync", "status", run)):
        done = lab.run(*command)
        assert done.code == 2, done.err
        assert f"cloud.url={place}" in done.err
    assert not (tmp_path / "home").exists()
    assert lab.run("train", "--resume", run, "cloud.url=off").code == 0
    config["cloud"]["url"] = place
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    done = lab.run("train", "--resume", run, f"cloud.url={place}")
    assert done.code == 0, done.err
    assert (tmp_path / "home" / "stranger" / "config.yaml").is_file()
    # Named once, it is known; and so is a directory that holds the run, to whoever has not named it.
    assert lab.run("sync", "push", run).code == 0
    assert lab.run("sync", "push", run, environment={"XDG_STATE_HOME": str(tmp_path / "other")}).code == 0
