"""Trackers show what metrics.jsonl says, each step once, whatever happens to the run; whatever happens to them, it goes on."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_lab import ORDERS, Lab, Moment

from eigen2.config import load_config
from eigen2.errors import ConfigError
from eigen2.harness import following, trackers
from eigen2.harness.following import Following, read_positions
from eigen2.harness.journal import read_log
from eigen2.harness.place import held
from eigen2.harness.run import Run
from eigen2.harness.trackers import Record, Tracked, check_trackers


def metrics(run: Path) -> dict[str, list[tuple[int, Any]]]:
    """Metric -> its steps and values, by metrics.jsonl."""
    found: dict[str, list[tuple[int, Any]]] = {}
    for record in read_log(run / "metrics.jsonl"):
        step = record.pop("step")
        for name, value in record.items():
            if value is not None:
                found.setdefault(name, []).append((step, pytest.approx(value)))
    return found


def on_tensorboard(run: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def on_wandb(file: Path) -> list[int]:
    """Steps in a file of an offline run."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    store: Any = DataStore()
    steps = []
    store.open_for_scan(str(file))
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()  # type: ignore[attr-defined]
        record.ParseFromString(data)
        if record.HasField("history"):
            steps.append(record.history.step.num)
    return steps


def on_trackio(directory: Path) -> list[tuple[str, int, dict[str, Any]]]:
    with sqlite3.connect(directory / "eigen2.db") as table:
        rows = table.execute("SELECT run_name, step, metrics FROM metrics ORDER BY step").fetchall()
    return [(name, step, json.loads(values)) for name, step, values in rows]


def test_a_killed_run_goes_on_in_every_tracker(lab: Lab, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "home"), "TRACKIO_DIR": str(tmp_path / "trackio")}
    run = tmp_path / "runs" / "mine"
    killed = lab.run(
        "train", *ORDERS, f"run.root={run.parent}", "run.name=mine", "track=tensorboard,wandb,trackio",
        environment=home, moments=(Moment("stepped", "SIGKILL", 2),),
    )  # fmt: skip
    assert killed.killed
    done = lab.run("train", "--resume", run, environment=home)
    assert done.code == 0, done.err
    assert "tracking:" not in done.out + done.err
    wanted = metrics(run)
    assert on_tensorboard(run) == wanted
    rows = on_trackio(tmp_path / "trackio")
    # A step that was told and not noted before the kill is told again.
    told = {(name, step): row["best_score"] for name, step, row in rows}
    assert list(told) == [("mine", 1), ("mine", 2), ("mine", 3)]
    assert [(step, score) for (_, step), score in told.items()] == wanted["best_score"]
    facts = Run(run).metadata()
    assert facts["wandb_id"] == facts["id"]
    files = sorted((run / "wandb").glob("offline-run-*/run-*.wandb"))
    assert {file.name for file in files} == {f"run-{facts['id']}.wandb"}
    steps = on_wandb(files[-1])
    assert steps == list(range(steps[0], 4))
    # The tracker of the killed process may still note its own last step after the resumed one has noted a later one.
    noted = read_positions(run / "tracking.json")
    assert noted.keys() == {"tensorboard", "wandb", "trackio"}
    assert all(1 <= step <= 3 for step in noted.values())
    assert lab.run("verify", run).code == 0


def test_a_finished_run_can_be_shown_afterwards(lab: Lab, finished: Path, tmp_path: Path) -> None:
    import shutil

    run = Path(shutil.copytree(finished, tmp_path / "runs" / "mine"))
    assert lab.run("train", "--resume", run, "track=tensorboard").code == 0
    assert on_tensorboard(run) == metrics(run)
    files = list((run / "tensorboard").iterdir())
    assert lab.run("train", "--resume", run).code == 0
    assert list((run / "tensorboard").iterdir()) == files, "nothing is new"


def test_a_tracker_that_fails_is_said_once_and_training_goes_on(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    done = lab.run(
        "train", *ORDERS, f"run.root={tmp_path}", "run.name=mine", "track=trackio",
        environment={"TRACKIO_DIR": str(tmp_path / "file" / "below")},
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.out.count("tracking: trackio failed") == 1
    (event,) = [e for e in read_log(tmp_path / "mine" / "events.jsonl") if e["kind"] == "tracker"]
    assert "training continues without it" in event["message"]


def test_a_stored_config_alone_sends_nothing_to_weights_and_biases(
    lab: Lab, finished: Path, tmp_path: Path
) -> None:
    import shutil

    run = Path(shutil.copytree(finished, tmp_path / "runs" / "mine"))
    Run(run).write_config(Run(run).read_config().model_copy(update={"track": ("wandb",)}))
    key = {"WANDB_API_KEY": "a" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"}
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    done = lab.run("train", "--resume", run, environment=key | home)
    assert done.code == 0, done.err
    assert "names wandb, and you have not: it stays offline" in done.out
    assert on_wandb(next((run / "wandb").glob("offline-run-*/run-*.wandb"))) == [1, 2, 3]


class Recording:
    """A tracker that keeps what it is told."""

    told: list[tuple[int, ...]] = []
    there = 0

    def __init__(self, tracked: Tracked) -> None:
        self.after = -1

    def begin(self, after: int) -> int:
        self.told.append((after,))
        return max(after, self.there)

    def log(self, records: Sequence[Record]) -> None:
        self.told.append(tuple(step for step, _ in records))

    def end(self, done: bool) -> None:
        self.told.append((int(done),) * 2)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    monkeypatch.setattr(Recording, "told", [])
    monkeypatch.setattr(following, "TRACKERS", {"wandb": Recording})
    return Recording.told


def follow(run: Run, start: int, steps: Sequence[int]) -> list[str]:
    """Track a run whose log is cut back to `start`, and which then takes `steps`."""
    lines = [
        line for line in run.log("metrics").read_text().splitlines() if json.loads(line)["step"] <= start
    ]
    said: list[str] = []
    with held(run.path) as place:
        found = Following(place, Tracked(run.path, "x", "id", {}), ["wandb"], start, said.append)
        lines += [json.dumps({"step": step, "score": 0.5}) for step in steps]
        run.log("metrics").write_text("".join(f"{line}\n" for line in lines))
        found.news()
        found.end(done=True)
    return said


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "metrics.jsonl").write_text("")
    (tmp_path / "wandb").mkdir()
    return Run(tmp_path)


def test_steps_that_were_told_are_not_told_again(run: Run, told: list[tuple[int, ...]]) -> None:
    assert follow(run, 0, [1, 2, 3, 4]) == []
    assert told == [(0,), (1, 2, 3, 4), (1, 1)]
    told.clear()
    follow(run, 2, [3, 4, 5])
    assert told == [(2,), (3, 4, 5), (1, 1)], "it goes on where the checkpoint is"
    told.clear()
    follow(run, 5, [])
    assert told == []


def test_what_a_tracker_lacks_is_told_from_the_log(run: Run, told: list[tuple[int, ...]]) -> None:
    follow(run, 0, [1, 2, 3])
    (run.path / "wandb").rmdir()
    told.clear()
    follow(run, 3, [4])
    assert told[:2] == [(0,), (1, 2, 3, 4)]


def test_a_tracker_says_itself_how_far_it_is(
    run: Run, told: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recording, "there", 3)
    follow(run, 0, [1, 2, 3, 4])
    assert told[1] == (4,)


@pytest.mark.parametrize("text", [b"[]", b"{", b'{"wandb": "x", "trackio": -1}', b'{"wandb": true}', b"\xff"])
def test_positions_that_are_none_tell_everything(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "tracking.json").write_bytes(text)
    assert read_positions(tmp_path / "tracking.json") == {}


def test_a_log_that_is_none_ends_tracking_with_a_sentence(run: Run, told: list[tuple[int, ...]]) -> None:
    with open(run.log("metrics"), "a") as file:
        file.write('{"step": 1}\n')
    said: list[str] = []
    with held(run.path) as place:
        found = Following(place, Tracked(run.path, "x", "id", {}), ["wandb"], 1, said.append)
        run.log("metrics").write_text('{"step": 1}\n{"step": "two"}\n')
        found.news()
        found.end(done=False)
    assert len(said) == 1
    assert "cannot be read" in said[0]


def test_nothing_is_written_into_another_run_that_took_the_place(
    run: Run, told: list[tuple[int, ...]]
) -> None:
    said: list[str] = []
    with held(run.path) as place:
        found = Following(place, Tracked(run.path, "x", "id", {}), ["wandb"], 0, said.append)
        run.path.rename(run.path.with_name("moved"))
        run.path.mkdir()
        run.log("metrics").write_text('{"step": 1}\n')
        found.news()
        found.end(done=True)
    assert told == []
    assert [path.name for path in run.path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.slow
def test_a_tracker_that_reaches_nobody_keeps_no_run_from_ending(lab: Lab, tmp_path: Path) -> None:
    nobody = {
        "HOME": str(tmp_path), "WANDB_MODE": "online", "WANDB_API_KEY": "a" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9",
    }  # fmt: skip
    done = lab.run("train", *ORDERS, f"run.root={tmp_path}", "run.name=x", "track=wandb", environment=nobody)
    assert done.code == 0, done.err
    assert done.out.count("tracking: ") == 1


def test_how_trackers_are_named() -> None:
    for words, wanted in (
        ("track=tensorboard,wandb", ("tensorboard", "wandb")),
        ("track=[wandb,trackio]", ("wandb", "trackio")),
        ("track='tensorboard, wandb'", ("tensorboard", "wandb")),
        ("track=tensorboard", ("tensorboard",)),
        ("track=wandb,wandb", ("wandb",)),
        ("track=off", ()),
        ("track=[]", ()),
        ("track=null", ()),
    ):
        assert load_config([words]).track == wanted, words
    for words in ("track=tensorbord", "track=5", "track={a: 1}", "track=[1]"):
        with pytest.raises(ConfigError, match="track"):
            load_config([words])


def test_a_missing_package_is_named_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda name: None if name == "wandb" else object())
    check_trackers(["tensorboard"])
    with pytest.raises(
        ConfigError, match=r"needs wandb, not installed here: `pip install 'eigen2\[track\]'`"
    ):
        check_trackers(["tensorboard", "wandb"])
