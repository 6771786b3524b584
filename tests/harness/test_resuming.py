"""A resume goes on with the same run or says why it cannot."""

import errno
import io
import json
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest
import yaml
from command_lab import ORDERS, Lab, Moment, newest, story, write_prices
from forgery import Forgery
from rich.console import Console

from eigen2.harness.journal import read_log
from eigen2.harness.run import Run
from eigen2.harness.training import start_run
from eigen2.store.checkpoints import Checkpoints, NewCheckpoint
from eigen2.store.manifest import Manifest


@pytest.fixture(scope="module")
def killed(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed after its second step; nobody may change it."""
    root = tmp_path_factory.mktemp("killed")
    overrides = (*ORDERS, f"run.root={root}", "run.name=killed")
    assert lab.run("train", *overrides, moments=(Moment("stepped", "SIGKILL", 2),)).killed
    return root / "killed"


@pytest.fixture
def run(killed: Path, tmp_path: Path) -> Path:
    """The killed run, for one's own use."""
    return Path(shutil.copytree(killed, tmp_path / "mine"))


def test_a_killed_run_goes_on_to_the_same_end(lab: Lab, run: Path, finished: Path) -> None:
    done = lab.run("train", "--resume", run)
    assert done.code == 0
    assert done.out.startswith(f"run {run}, resumed\n")
    assert story(run) == story(finished)
    assert lab.run("fingerprint", run).out == lab.run("fingerprint", finished).out
    assert [event["kind"] for event in read_log(run / "events.jsonl")] == ["start", "resume"]


def test_a_resume_on_another_processor_says_so(lab: Lab, run: Path, finished: Path) -> None:
    Forgery(run).forge(lambda body: body["identity"].update(processor="Z80 (DEFAULT)"))
    done = lab.run("train", "--resume", run)
    assert done.code == 0
    assert "The run was computed on Z80 (DEFAULT) until now, this is" in done.out
    assert story(run) == story(finished)


def test_resume_alone_takes_the_newest_run(lab: Lab, tmp_path: Path, finished: Path) -> None:
    (tmp_path / "runs").mkdir()
    shutil.copytree(finished, tmp_path / "runs" / "finished")
    (tmp_path / "runs" / "latest").symlink_to("finished")
    done = lab.run("train", "--resume", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.json["run"] == str(tmp_path / "runs" / "finished")


def test_resuming_a_finished_run_only_looks_again(lab: Lab, tmp_path: Path, finished: Path) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "mine"))
    kept = [*(run / "checkpoints").iterdir(), run / "metrics.jsonl", run / "events.jsonl"]
    before = {path: path.read_bytes() for path in kept}
    done = lab.run("train", "--resume", run, "--json")
    assert done.code == 0
    assert done.json["evaluation"]["split"] == "validation"
    assert {path: path.read_bytes() for path in kept} == before


def test_more_generations_go_on_where_the_run_ended(lab: Lab, tmp_path: Path, finished: Path) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "mine"))
    assert lab.run("train", "--resume", run, "alg.generations=5").code == 0
    straight = lab.train("straight", ORDERS, tmp_path, "alg.generations=5")
    assert story(run) == story(straight)
    assert lab.run("fingerprint", run).out == lab.run("fingerprint", straight).out
    assert yaml.safe_load((run / "config.yaml").read_text())["alg"]["generations"] == 5
    listed = {found["name"]: found for found in lab.run("runs", "--root", tmp_path, "--json").json}
    assert (listed["mine"]["step"], listed["mine"]["steps"]) == (5, 5)


@pytest.mark.parametrize(
    ("override", "shown"),
    [
        ("alg.population=6", "alg.population: 4 -> 6"),
        ("seed=8", "seed: 7 -> 8"),
        ("env.fee_bp=20", "env.fee_bp: 10.0 -> 20.0"),
        ("env.synthetic.days=500", "env.synthetic.days: 400 -> 500"),
        ("env=gym", "presets"),
    ],
)
def test_a_resume_that_would_compute_something_else_is_refused(
    lab: Lab, run: Path, override: str, shown: str
) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    done = lab.run("train", "--resume", run, override)
    assert done.code == 2
    assert shown in done.err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_config_edited_by_hand_is_refused(lab: Lab, run: Path) -> None:
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("fee_bp: 10.0", "fee_bp: 0.0"))
    done = lab.run("train", "--resume", run)
    assert done.code == 2
    assert "config.yaml is not the one" in done.err


def test_changes_that_compute_the_same_are_allowed(lab: Lab, run: Path, finished: Path) -> None:
    allowed = ("checkpoint.every=2", "replay.compress=false", "run.grace_seconds=1")
    assert lab.run("train", "--resume", run, *allowed).code == 0
    assert story(run) == story(finished)
    final = json.loads((run / "checkpoints" / "final.json").read_text())["body"]
    assert final["replay"]["compress"] is False


def test_a_run_goes_on_from_any_working_directory_with_relative_paths(lab: Lab, tmp_path: Path) -> None:
    write_prices(tmp_path / "prices.csv")
    overrides = ("env.data=prices.csv", *ORDERS[3:], "run.root=deep/runs", "run.name=mine")
    assert lab.run("train", *overrides, cwd=tmp_path, moments=(Moment("stepped", "SIGKILL", 2),)).killed
    (tmp_path / "elsewhere").mkdir()
    names = ("mine", "run.root=../deep/runs", "env.data=../prices.csv")
    done = lab.run("train", "--resume", *names, cwd=tmp_path / "elsewhere")
    assert done.code == 0, done.err
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_resume_with_other_data_is_refused(lab: Lab, tmp_path: Path) -> None:
    write_prices(tmp_path / "prices.csv")
    places = (f"env.data={tmp_path / 'prices.csv'}", f"run.root={tmp_path}", "run.name=mine")
    overrides = (*places, *ORDERS[3:], "run.keep_data=false")
    assert lab.run("train", *overrides, moments=(Moment("stepped", "SIGKILL", 2),)).killed
    was = json.loads((tmp_path / "mine" / "run.json").read_text())["data_fingerprint"]
    write_prices(tmp_path / "prices.csv", factor=1.5)
    done = lab.run("train", "--resume", tmp_path / "mine")
    assert done.code == 2
    assert f"fingerprint {was[:16]}" in done.err
    assert "start a new run" in done.err
    write_prices(tmp_path / "prices.csv")
    assert lab.run("train", "--resume", tmp_path / "mine").code == 0


def test_a_damaged_newest_checkpoint_is_refused_by_name_and_the_one_before_is_used(
    lab: Lab, run: Path, finished: Path
) -> None:
    latest = run / "checkpoints" / "latest.json"
    latest.write_bytes(latest.read_bytes().replace(b'"step": ', b'"step":  ', 1))
    done = lab.run("train", "--resume", run)
    assert done.code == 0, done.err
    assert "checkpoint 'latest' is refused" in done.out
    assert "is used instead" in done.out
    assert story(run) == story(finished)


def test_a_run_killed_before_its_first_checkpoint_begins_anew(
    lab: Lab, tmp_path: Path, finished: Path
) -> None:
    overrides = (*ORDERS, f"run.root={tmp_path}", "run.name=mine")
    # The twelfth file operation belongs to the first checkpoint.
    done = lab.run("train", *overrides, moments=(Moment("operation", "SIGKILL", 12),))
    run = tmp_path / "mine"
    assert done.killed
    assert newest(run) == -1
    (run / "metrics.jsonl").write_bytes(b'{"step":1,"of":"the life that was cut short"}\n{"st')
    assert lab.run("train", "--resume", run).code == 0
    assert story(run) == story(finished)
    assert [event["kind"] for event in read_log(run / "events.jsonl")] == ["start"]


def test_best_is_the_checkpoint_in_which_the_champion_took_its_title(lab: Lab, tmp_path: Path) -> None:
    """Later steps without a new champion leave `best` alone."""
    overrides = (*ORDERS, f"run.root={tmp_path}", "run.name=mine", "alg.variation=layer", "seed=5")
    assert lab.run("train", *overrides).code == 0
    run = tmp_path / "mine"
    metrics = read_log(run / "metrics.jsonl")
    title = next(record["step"] for record in metrics if record["best_score"] == metrics[-1]["best_score"])
    manifest = json.loads((run / "checkpoints" / "best.json").read_text())["body"]
    assert manifest["step"] == title < metrics[-1]["step"]


def test_thinned_out_replay_saves_are_said_and_the_last_one_is_complete(lab: Lab, tmp_path: Path) -> None:
    overrides = (*ORDERS, f"run.root={tmp_path}", "run.name=mine", "replay.every=2")
    assert lab.run("train", *overrides, moments=(Moment("phase:evaluate", "SIGKILL", 3),)).killed
    run = tmp_path / "mine"
    done = lab.run("train", "--resume", run)
    assert done.code == 0
    final = json.loads((run / "checkpoints" / "final.json").read_text())["body"]
    assert final["replay_step"] == final["step"] == 3


def test_a_damaged_run_json_is_said_and_can_be_deleted(lab: Lab, run: Path, finished: Path) -> None:
    (run / "run.json").write_text('{"status": "run')
    done = lab.run("train", "--resume", run)
    assert done.code == 5
    assert "run.json is damaged" in done.err
    (run / "run.json").unlink()
    assert lab.run("train", "--resume", run).code == 0
    assert story(run) == story(finished)


def test_stored_experience_alone_is_no_run(lab: Lab, finished: Path, tmp_path: Path) -> None:
    from eigen2.harness.datasets import RunDatasets, write_dataset
    from eigen2.harness.run import Run

    replay, _ = RunDatasets(tmp_path).replay(finished)
    write_dataset(tmp_path / "data", Run(finished).read_config(), replay)
    for command in (("train", "--resume"), ("evaluate",)):
        done = lab.run(*command, tmp_path / "data")
        assert done.code == 2, done.err
        assert "stored experience alone" in done.err


def test_a_first_save_that_failed_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: Path
) -> None:
    save, failures = Checkpoints.save, [OSError(errno.ENOSPC, "No space left on device")]

    def failing(self: Checkpoints, new: NewCheckpoint, roles: Collection[str] = ()) -> Manifest:
        if failures:
            raise failures.pop()
        return save(self, new, roles)

    monkeypatch.setattr(Checkpoints, "save", failing)
    start_run([*ORDERS, f"run.root={tmp_path}", "run.name=mine"], Console(file=io.StringIO()))
    first, was = (Run(path).checkpoints.load("init") for path in (tmp_path / "mine", finished))
    assert (first.manifest.step, first.manifest.objects) == (0, was.manifest.objects)


def test_a_run_killed_inside_its_first_save_begins_anew_from_its_own_data(lab: Lab, tmp_path: Path) -> None:
    """`init` is there, `latest` is not, and the user's file is gone."""
    write_prices(tmp_path / "prices.csv")
    words = (f"env.data={tmp_path / 'prices.csv'}", *ORDERS[3:])
    straight = lab.train("straight", words, tmp_path)
    run = Path(shutil.copytree(straight, tmp_path / "mine"))
    for path in (run / "checkpoints").glob("*.json"):
        if path.stem != "init":
            path.unlink()
    (tmp_path / "prices.csv").unlink()
    done = lab.run("train", "--resume", run)
    assert done.code == 0, done.err
    assert story(run) == story(straight)
    assert lab.run("fingerprint", run).out == lab.run("fingerprint", straight).out
