"""A world model is fitted to another run's replay first; from the first checkpoint on, that run is not needed."""

import json
import shutil
from pathlib import Path

import pytest
from command_lab import WORLD_MODEL, Lab, Moment, story


@pytest.fixture(scope="module")
def source(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that nobody may change."""
    return lab.train("source", WORLD_MODEL, tmp_path_factory.mktemp("source"), "seed=3")


def pretrained(source: Path | str) -> tuple[str, ...]:
    return (*WORLD_MODEL, f"alg.pretrain.replay={source}", "alg.pretrain.updates=5")


def test_a_run_killed_while_pretraining_goes_on_bit_for_bit_without_its_source(
    lab: Lab, source: Path, tmp_path: Path
) -> None:
    straight = lab.train("straight", pretrained(source), tmp_path)
    data = Path(shutil.copytree(source, tmp_path / "data"))
    overrides = (*pretrained("data"), f"run.root={tmp_path}", "run.name=cut")
    assert lab.run("train", *overrides, moments=(Moment("stepped", "SIGKILL", 2),)).killed
    shutil.rmtree(data)
    done = lab.run("train", "--resume", tmp_path / "cut")
    assert done.code == 0, done.err
    assert story(tmp_path / "cut") == story(straight)
    assert lab.run("fingerprint", tmp_path / "cut").out == lab.run("fingerprint", straight).out
    assert lab.run("verify-resume", straight, "--json").json["ok"]
    listed = {found["name"]: found for found in lab.run("runs", "--root", tmp_path, "--json").json}
    assert (listed["cut"]["step"], listed["cut"]["steps"]) == (6, 6)


def test_where_the_data_came_from_is_recorded(lab: Lab, source: Path, tmp_path: Path) -> None:
    checkpoint = source / "checkpoints" / "latest.json"
    run = lab.train("mine", pretrained(checkpoint), tmp_path)
    recorded = json.loads((run / "run.json").read_text())["pretrained_from"]
    assert recorded == {"path": str(checkpoint), "checkpoint": "latest", "step": 3, "transitions": 96}
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [record.get("pretrained") for record in metrics] == [2, 4, 5, None, None, None]
    assert lab.run("export", run).code == 0
    assert "5 updates on 96 transitions" in (run / "export" / "README.md").read_text()


def test_data_that_cannot_be_used_is_refused_before_a_run_exists(
    lab: Lab, source: Path, finished: Path, tmp_path: Path
) -> None:
    damaged = Path(shutil.copytree(source, tmp_path / "damaged"))
    objects = json.loads((damaged / "checkpoints" / "final.json").read_text())["body"]["objects"]
    segment = next(ref["hash"] for name, ref in objects.items() if name.startswith("replay/"))
    victim = next(path for path in (damaged / "objects").rglob("*") if segment.endswith(path.name))
    victim.write_bytes(victim.read_bytes()[:-3])
    other = lab.train("other", (*WORLD_MODEL, "env=dflex_cartpole"), tmp_path)
    cases: list[tuple[str | Path, int, str]] = [
        ("nowhere", 2, "nowhere"),
        (source / "config.yaml", 2, "is not a checkpoint"),
        (source / "checkpoints" / "init.json", 2, "holds no replay"),
        (finished, 3, "pendulum needs obs[3], action[1]"),
        (other, 3, "holds obs[5], action[1]"),
        (damaged, 5, str(victim)),
    ]
    for path, code, words in cases:
        done = lab.run("train", *pretrained(path), "--log-dir", tmp_path / "runs")
        assert done.code == code, (path, done.err)
        assert words in done.err
        assert len(done.err.splitlines()) == 1
        assert not (tmp_path / "runs").exists()


def test_a_thinned_out_replay_never_brings_the_source_back(lab: Lab, source: Path, tmp_path: Path) -> None:
    overrides = (*pretrained(source), "replay.every=100", f"run.root={tmp_path}", "run.name=mine")
    assert lab.run("train", *overrides, moments=(Moment("stepped", "SIGKILL", 5),)).killed
    latest = json.loads((tmp_path / "mine" / "checkpoints" / "latest.json").read_text())["body"]
    assert latest["replay_step"] == 3
    assert latest["replay"]["total"] == 0
