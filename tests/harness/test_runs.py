"""`eigen2 runs`: every run in a line, its state from its files and its lock; `runs clean` deletes what nothing needs."""

import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_lab import ORDERS, Lab, Moment
from rich.console import Console

from eigen2.errors import ConfigError
from eigen2.harness.cleaning import clean
from eigen2.harness.lock import RunLock
from eigen2.harness.plain_yaml import load_plain
from eigen2.harness.run import Run
from eigen2.harness.run_table import age_words, chosen_runs, run_table


@pytest.fixture
def root(finished: Path, tmp_path: Path) -> Path:
    """Three runs: done, and two copies of it to be changed."""
    for name in ("one", "two", "three"):
        shutil.copytree(finished, tmp_path / "runs" / name)
    return tmp_path / "runs"


def note(run: Path, **facts: Any) -> None:
    Run(run).note(**facts)


def state(run: Path) -> str:
    (found,) = [one for one in chosen_runs(run.parent, {}) if one["name"] == run.name]
    return str(found["state"])


def sign(run: Path, **holder: Any) -> None:
    known = {"pid": os.getpid(), "host": socket.gethostname(), "since": int(time.time())}
    (run / "lock").write_text(json.dumps(known | holder), encoding="utf-8")


def shown(runs: list[dict[str, Any]], width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(run_table(runs))
    return out.getvalue()


def test_the_facts_of_a_run(lab: Lab, root: Path) -> None:
    found = lab.run("runs", "--root", root, "--name", "one", "--json").json[0]
    assert (found["alg"], found["env"], found["seed"]) == ("erl", "random_walk", 7)
    assert (found["state"], found["progress"], found["host"]) == ("done", 1.0, socket.gethostname())
    assert found["age"] >= 0.0
    assert found["started"].endswith("Z")


def test_a_run_of_an_earlier_version_is_known_by_its_config(root: Path) -> None:
    facts = json.loads((root / "one" / "run.json").read_text())
    for name in ("alg", "env", "seed"):
        facts.pop(name)
    (root / "one" / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    (found,) = chosen_runs(root, {"name": ["one"]})
    assert (found["alg"], found["env"], found["seed"]) == ("erl", "trading", 7)


def test_states_come_from_run_json_and_the_lock(root: Path) -> None:
    run = root / "one"
    note(run, status="running")
    sign(run)
    assert state(run) == "crashed", "nobody has this file open"
    with RunLock(run):
        assert state(run) == "running"
    assert state(run) == "stopped", "the lock was given back without a word in run.json"
    sign(run, host="another")
    assert state(run) == "running"
    note(run, status="failed")
    assert state(run) == "crashed"
    note(run, status="stopped")
    assert state(run) == "stopped"
    note(run, status="on fire")
    assert state(run) == "damaged"


def test_a_large_score_is_no_damage(root: Path) -> None:
    with (root / "one" / "metrics.jsonl").open("a", encoding="utf-8") as log:
        log.write('{"step": 3, "best_score": -7.4e30}\n')
    (found,) = chosen_runs(root, {"name": ["one"]})
    assert (found["state"], found["best"]) == ("done", -7.4e30)


def test_a_process_that_got_the_number_of_a_dead_one_is_not_taken_for_it(root: Path) -> None:
    note(root / "one", status="running")
    sign(root / "one", since=1_000_000)
    assert state(root / "one") == "crashed"


def test_a_copy_of_a_run_that_is_being_trained_is_not_running(root: Path) -> None:
    note(root / "one", status="running")
    with RunLock(root / "one"):
        shutil.copy(root / "one" / "lock", root / "two" / "lock")
        note(root / "two", status="running")
        assert (state(root / "one"), state(root / "two")) == ("running", "crashed")


def test_a_run_is_chosen_by_what_it_is(root: Path) -> None:
    note(root / "two", status="stopped", alg="pwm_tiny")
    names = [run["name"] for run in chosen_runs(root, {"state": ["done"]}, "name")]
    assert names == ["one", "three"]
    assert [run["name"] for run in chosen_runs(root, {"alg": ["pwm*"], "state": []})] == ["two"]
    assert chosen_runs(root, {"env": ["sp20"]}) == []
    assert [run["name"] for run in chosen_runs(root, {}, "name", True)] == ["two", "three", "one"]
    with pytest.raises(ConfigError, match="running, done, stopped"):
        chosen_runs(root, {"state": ["finished"]})
    with pytest.raises(ConfigError, match="name, alg"):
        chosen_runs(root, {}, "colour")


def test_runs_without_a_value_come_last_and_the_newest_is_last_otherwise(root: Path) -> None:
    (root / "two" / "metrics.jsonl").write_text('{"step": 1}\n', encoding="utf-8")
    for back in (False, True):
        assert [run["name"] for run in chosen_runs(root, {}, "best", back)][-1] == "two"
    for age, name in enumerate(("three", "one", "two")):
        for file in (root / name).glob("*.*"):
            os.utime(file, (1e9 - age, 1e9 - age))
    assert [run["name"] for run in chosen_runs(root, {})] == ["two", "one", "three"]


@pytest.mark.parametrize("width", [200, 120, 80, 60])
def test_a_narrow_terminal_gets_fewer_columns_and_whole_numbers(root: Path, width: int) -> None:
    note(root / "two", status="stopped")
    runs = [
        run | {"best": -1234567.0, "bytes": 123_456_789_000, "step": 1_234_567}
        for run in chosen_runs(root, {})
    ]
    text = shown(runs, width)
    assert all(len(line) <= width for line in text.splitlines())
    for word in ("-1.235e+06", "1234567/3", "stopped at 1234567"):
        assert word in text.replace("\n", "") or width == 60
    assert ("host" in text) == (width >= 120)
    assert ("123.46 GB" in text) == (width >= 80)
    assert "-1.235e+06" in text
    assert "1234567/3" in text


def test_a_long_name_is_broken_before_numbers_are(root: Path) -> None:
    runs = [run | {"name": "a_very_long_name_" * 4} for run in chosen_runs(root, {})]
    text = shown(runs, 60)
    assert "3/3" in text
    assert "progress" in text


def test_names_are_no_markup_and_no_commands_for_the_terminal(root: Path) -> None:
    note(root / "one", host="\x1b[2Jevil", alg="[red]x")
    text = shown(chosen_runs(root, {"name": ["one"]}), 200)
    assert "\x1b" not in text
    assert "[red]x" in text


def test_no_runs_are_said(lab: Lab, tmp_path: Path) -> None:
    done = lab.run("runs", "--root", tmp_path)
    assert (done.code, done.out) == (0, "")
    assert "There is no run in" in done.err


def test_ages_in_units_of_which_there_are_two() -> None:
    assert [age_words(x) for x in (None, 0, 119, 120, 7_199, 7_200, 172_799, 172_800)] == [
        "", "0 s", "119 s", "2 min", "120 min", "2 h", "48 h", "2 d",
    ]  # fmt: skip


def litter(run: Path) -> int:
    """What a killed process leaves: an object that nothing names, and a file that was not finished."""
    objects = Run(run).checkpoints.objects
    objects.put(b"nobody" * 1000)
    (run / "objects" / ".incoming-1").write_bytes(b"half")
    return 6004


def cleaned(
    root: Path, answer: bool = True, runs: list[Run] | None = None
) -> tuple[dict[str, Any], list[str]]:
    said: list[str] = []
    return clean(root, runs, lambda _: answer, said.append), said


def test_clean_shows_what_nothing_needs_and_deletes_it_when_told(root: Path) -> None:
    size = litter(root / "two")
    facts, said = cleaned(root, answer=False)
    assert (facts["bytes"], facts["freed_bytes"]) == (size, None)
    assert said == ["two: 1 object, 1 unfinished file, 6.0 kB"]
    before = set((root / "one").rglob("*"))
    facts, _ = cleaned(root)
    assert facts["freed_bytes"] == size
    assert set((root / "one").rglob("*")) == before
    assert cleaned(root)[1] == ["There is nothing to clean."]


def test_what_evaluations_checkpoints_and_uploads_name_stays(lab: Lab, root: Path) -> None:
    litter(root / "one")
    cleaned(root)
    assert lab.run("verify", root / "one").code == 0


def test_a_directory_that_never_became_a_run_goes(root: Path) -> None:
    rest = root / ".new-of-an-earlier-version"
    rest.mkdir()
    (rest / "config.yaml").write_bytes(b"x" * 500)
    os.utime(rest, (1e9, 1e9))
    facts, said = cleaned(root)
    assert facts["freed_bytes"] == 500
    assert "directories that never became a run" in said[0]
    assert not rest.exists()


def test_a_run_that_somebody_works_on_is_left_alone(root: Path) -> None:
    litter(root / "two")
    with RunLock(root / "two"):
        facts, said = cleaned(root)
    assert facts["freed_bytes"] is None
    assert said[0] == "two: left alone, a process works on it"
    assert cleaned(root)[0]["freed_bytes"] > 0


def test_a_run_that_is_taken_while_the_question_waits_is_left_alone(root: Path) -> None:
    litter(root / "two")
    locks: list[RunLock] = []

    def confirmed(_: str) -> bool:
        locks.append(RunLock(root / "two").__enter__())
        return True

    facts = clean(root, None, confirmed, lambda _: None)
    locks[0].__exit__(None, None, None)
    assert facts["freed_bytes"] == 0
    assert cleaned(root, answer=False)[0]["bytes"] > 0


def _broken_manifest(run: Path) -> None:
    (run / "checkpoints" / "latest.json").write_bytes(b"{")


def _missing_object(run: Path) -> None:
    manifest = Run(run).checkpoints.good()["latest"]
    Run(run).checkpoints.objects.delete(next(iter(manifest.objects.values())).hash)


@pytest.mark.parametrize("damage", [_broken_manifest, _missing_object, lambda run: note(run, status="?")])
def test_a_damaged_run_keeps_everything(root: Path, damage: Callable[[Path], None]) -> None:
    litter(root / "two")
    damage(root / "two")
    before = sorted((root / "two").rglob("*"))
    facts, said = cleaned(root)
    assert "two: left alone" in said[0]
    assert facts["freed_bytes"] is None
    assert sorted((root / "two").rglob("*")) == before


def test_the_command_deletes_nothing_unasked(lab: Lab, root: Path) -> None:
    size = litter(root / "two")
    done = lab.run("runs", "clean", "--root", root)
    assert done.code == 0
    assert "--yes" in done.out
    assert lab.run("runs", "--root", root, "clean", "--json").json["freed_bytes"] is None
    assert lab.run("runs", "clean", "one", "--root", root, "--yes").out == "There is nothing to clean.\n"
    assert lab.run("runs", "clean", "two", "--root", root, "--yes", "--json").json["freed_bytes"] == size


def test_a_killed_run_is_cleaned_and_goes_on(lab: Lab, tmp_path: Path) -> None:
    killed = lab.run(
        "train",
        *ORDERS,
        f"run.root={tmp_path}",
        "run.name=killed",
        moments=(Moment("stepped", "SIGKILL", 2),),
    )
    assert killed.killed
    assert state(tmp_path / "killed") == "crashed"
    litter(tmp_path / "killed")
    assert lab.run("runs", "clean", "--root", tmp_path, "--yes").code == 0
    assert lab.run("train", "--resume", tmp_path / "killed").code == 0
    assert state(tmp_path / "killed") == "done"


@pytest.mark.parametrize(
    "text", ["a: &x 1\nb: *x\n", "- " * 5000 + "1", "[" * 900 + "]" * 900, "a: [1", "{" * 2000, "\x00"]
)
def test_yaml_that_blows_up_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it holds|nested|parsing|special|bracket|expected|allowed"):
        load_plain(text)


def test_listing_imports_nothing_heavy(root: Path) -> None:
    code = (
        "import sys; sys.argv = ['eigen2', 'runs', '--root', sys.argv[1]]\n"
        "from eigen2.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "sys.exit(', '.join({'torch', 'pandas', 'pyarrow', 'numpy'} & set(sys.modules)) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
