"""Everything that reads a run proves what a resume proves, says what it passes over, and never ends in a traceback."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_lab import ORDERS, PENDULUM, Done, Lab, write_prices

from eigen2.errors import ResourceError
from eigen2.harness.evaluating import evaluate_run
from eigen2.harness.journal import read_log
from eigen2.harness.listing import list_runs
from eigen2.harness.run import Run
from eigen2.store.manifest import read_manifest, to_bytes

READERS = (("evaluate",), ("export",), ("verify-resume",))
"""Commands that open a run with its config and data."""


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A finished run, for one's own use."""
    return Path(shutil.copytree(finished, tmp_path / "runs" / "mine"))


def edit(run: Path, before: str, after: str) -> None:
    text = (run / "config.yaml").read_text()
    assert before in text
    (run / "config.yaml").write_text(text.replace(before, after))


def is_sentence(done: Done, code: int) -> str:
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    return done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("fee_bp: 10.0", "fee_bp: 0.0"),
        # By this config the run could not even be opened.
        ("validation_days: 60", "validation_days: 6000"),
    ],
)
def test_a_config_edited_by_hand_is_refused_by_whoever_opens_the_run(
    lab: Lab, run: Path, before: str, after: str
) -> None:
    edit(run, before, after)
    for command in (*READERS, ("train", "--resume")):
        said = is_sentence(lab.run(*command, run), 2)
        assert "config.yaml is not the one the checkpoint was made with" in said
        assert before.split(":")[0] in said
    assert len(Run(run).evaluations()) == 1


def test_an_edited_length_of_episodes_is_refused(lab: Lab, tmp_path: Path) -> None:
    run = lab.train("mine", PENDULUM, tmp_path)
    edit(run, "max_episode_steps: 20", "max_episode_steps: 40")
    said = is_sentence(lab.run("evaluate", run), 2)
    assert "env.max_episode_steps: 20 -> 40" in said


def test_other_prices_than_those_of_the_run_are_refused(lab: Lab, tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    write_prices(prices)
    words = (f"env.data={prices}", *ORDERS[3:], "run.keep_data=false")
    run = lab.train("mine", words, tmp_path)
    lines = prices.read_text().splitlines()
    # The last day is held out.
    lines[-1] = ",".join([lines[-1].split(",")[0], "1", "1", "1", "1"])
    prices.write_text("\n".join(lines) + "\n")
    for command in READERS:
        assert "trained on data with fingerprint" in is_sentence(lab.run(*command, run), 2)
    assert len(Run(run).evaluations()) == 1


def test_a_config_that_no_resume_takes_is_not_pushed(lab: Lab, run: Path, tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    edit(run, "fee_bp: 10.0", "fee_bp: 0.0")
    done = lab.run("sync", "push", run, "--to", f"file://{tmp_path / 'bucket'}")
    assert "env.fee_bp: 10.0 -> 0.0" in is_sentence(done, 2)
    assert not any((tmp_path / "bucket").rglob("config.yaml"))


def damage_newest(run: Path) -> None:
    for name in ("latest", "final"):
        (run / "checkpoints" / f"{name}.json").write_text("{")


@pytest.mark.parametrize(
    "command", [("evaluate",), ("fingerprint",), ("replay", "info"), ("replay", "verify")]
)
def test_a_damaged_newest_checkpoint_is_not_passed_over_in_silence(
    lab: Lab, run: Path, command: tuple[str, ...]
) -> None:
    damage_newest(run)
    done = lab.run(*command, run)
    assert done.code == 0, done.err
    for name in ("latest", "final"):
        assert f"checkpoint '{name}' is refused" in done.err
    assert done.err.count("'previous' of step 2 is used instead") == 2


def test_an_export_leaves_out_what_is_damaged_and_says_so(lab: Lab, run: Path) -> None:
    damage_newest(run)
    done = lab.run("export", run)
    assert done.code == 0, done.err
    assert "checkpoint 'latest' is left out" in done.err
    (run / "checkpoints" / "latest.json").unlink()
    assert lab.run("export", run).code == 0


@pytest.mark.parametrize("name", ["final", "latest"])
def test_a_finished_run_whose_last_manifest_is_damaged_is_completed_again(
    lab: Lab, run: Path, finished: Path, name: str
) -> None:
    (run / "checkpoints" / f"{name}.json").write_text("{")
    done = lab.run("train", "--resume", run)
    assert done.code == 0, done.err
    for name in ("final", "latest"):
        mended, was = (read_manifest(path / "checkpoints" / f"{name}.json") for path in (run, finished))
        assert (mended.objects, mended.metrics) == (was.objects, was.metrics)


def test_a_kill_between_the_last_two_manifests_costs_no_metrics(lab: Lab, run: Path, finished: Path) -> None:
    """`final` is written, `latest` is still the one before."""
    before = read_manifest(run / "checkpoints" / "previous.json")
    (run / "checkpoints" / "latest.json").write_bytes(
        to_bytes(type(before)(**{**vars(before), "name": "latest"}))
    )
    assert lab.run("train", "--resume", run).code == 0
    for name in ("final", "latest"):
        assert (
            Run(run).checkpoints.load(name).manifest.metrics
            == Run(finished).checkpoints.load(name).manifest.metrics
        )
    assert Run(run).checkpoints.load("latest").manifest.step == 3


def unreadable(run: Path) -> None:
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: (run / "run.json").write_text('{"sta'),
        lambda run: (run / "run.json").write_bytes(b"\xff\xfe"),
        lambda run: (run / "run.json").write_text('{"status": ["done"]}'),
        lambda run: (run / "run.json").write_text('{"status": "done", "steps": "many"}'),
        lambda run: (run / "metrics.jsonl").write_bytes(b'{"step":"x"}\n'),
        lambda run: (run / "metrics.jsonl").write_bytes(b'{"step":1,"best_score":[]}\n'),
        lambda run: (run / "metrics.jsonl").write_bytes(b"\xff\n"),
        unreadable,
    ],
)
def test_one_bad_run_is_listed_as_damaged_beside_the_others(
    finished: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    for name in ("bad", "good"):
        shutil.copytree(finished, tmp_path / name)
    damage(tmp_path / "bad")
    listed = {found["name"]: found for found in list_runs(tmp_path)}
    assert listed["bad"]["state"] == "damaged"
    assert (listed["good"]["state"], listed["good"]["step"]) == ("done", 3)
    json.dumps(list(listed.values()), allow_nan=False)


def test_runs_prints_a_damaged_run(lab: Lab, run: Path) -> None:
    (run / "metrics.jsonl").write_bytes(b'{"step":"x","best_score":"y"}\n')
    done = lab.run("runs", "--root", run.parent)
    assert (done.code, "damaged" in done.out) == (0, True)


def test_a_lock_in_no_known_letters_is_in_nobodys_way(lab: Lab, run: Path) -> None:
    for text in (
        b"\xff\xfe\x00{",
        b'{"pid":99999999999999999999999,"host":"h","since":1}',
        b'{"pid":1,"host":2,"since":{}}',
    ):
        (run / "lock").write_bytes(text)
        assert list_runs(run.parent)[0]["state"] == "done"
        done = lab.run("train", "--resume", run)
        assert done.code == 0, done.err


def test_a_damaged_log_of_memory_does_not_spoil_the_end_of_a_run(lab: Lab, run: Path) -> None:
    (run / "memory.jsonl").write_bytes(b"[1]\n")
    assert is_sentence(lab.run("memory", run), 5).startswith("eigen2: ")
    done = lab.run("train", "--resume", run)
    assert done.code == 0, done.err
    assert "memory.jsonl is damaged" in done.out


def test_a_torn_evaluation_is_cut_off_and_said(lab: Lab, run: Path) -> None:
    path = run / "evaluations.jsonl"
    path.write_bytes(path.read_bytes() + b'{"split":"holdout","ti')
    done = lab.run("evaluate", run)
    assert done.code == 0, done.err
    assert "its 22 bytes are cut off" in done.err
    assert len(read_log(path)) == 2
    path.write_bytes(path.read_bytes() + b'{"split":"holdout","ti')
    assert lab.run("train", "--resume", run).code == 0
    assert read_log(run / "events.jsonl")[-1]["kind"] == "log_mended"
    assert len(read_log(path)) == 3


def test_an_evaluation_that_cannot_be_recorded_is_not_begun(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ResourceError, match="could not be recorded"):
        evaluate_run(Run(run), "holdout", lambda _: None)
