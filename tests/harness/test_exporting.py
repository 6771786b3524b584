"""`eigen2 export`: plain files, a card that says what they are worth, and nothing half-written."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from command_lab import WORLD_MODEL, Lab, Moment
from safetensors.torch import load_file

FILES = {"init_policy.pt", "best_policy.pt", "latest_checkpoint.pt", "final_policy.pt"}


@pytest.fixture(scope="module")
def ended(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a flow world model, exported; nobody may change it."""
    run = lab.train("ended", WORLD_MODEL, tmp_path_factory.mktemp("ended"))
    assert lab.run("export", run).code == 0
    return run


@pytest.fixture
def run(ended: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ended, tmp_path / "ended"))


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_every_file_loads_without_running_code(ended: Path) -> None:
    assert {path.name for path in (ended / "export").iterdir()} == {*FILES, "README.md", "export.json"}
    for name in FILES:
        loaded = torch.load(ended / "export" / name, weights_only=True)
        assert (loaded["task"], loaded["observation_size"], loaded["action_size"]) == ("pendulum", 3, 1)


def test_best_is_the_policy_of_the_best_evaluation(ended: Path) -> None:
    metrics = [json.loads(line) for line in (ended / "metrics.jsonl").read_text().splitlines()]
    best = max(metrics, key=lambda record: record["eval_return"])
    assert torch.load(ended / "export" / "best_policy.pt", weights_only=True)["iteration"] == best["step"]


def test_the_card_says_what_the_scores_are_worth(lab: Lab, run: Path) -> None:
    facts = lab.run("export", run, "--json").json
    card = (run / "export" / "README.md").read_text()
    shown = [
        facts["random_return"],
        facts["stand_still_return"],
        facts["files"]["final_policy.pt"]["mean_return"],
    ]
    for fact in (
        *(f"{value:.1f}" for value in shown), "MuJoCo physics: scores are not comparable with dflex's", "seed 7",
        "parameters", "96 environment steps", "torch", json.loads((run / "export" / "export.json").read_text())["config"],
    ):  # fmt: skip
        assert fact in card, fact


def test_the_code_in_the_card_acts(ended: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall("```python\n(.*?)```", (ended / "export" / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(ended / "export")
    names: dict[str, np.ndarray] = {}
    exec(code, names)
    assert names["actions"].shape == (1, 1)


def test_a_run_that_was_killed_exports_what_exists_and_says_what_does_not(lab: Lab, tmp_path: Path) -> None:
    overrides = (*WORLD_MODEL, "alg.evaluate_every=3", f"run.root={tmp_path}", "run.name=cut")
    assert lab.run("train", *overrides, moments=(Moment("stepped", "SIGKILL", 3),)).killed
    facts = lab.run("export", tmp_path / "cut", "--json").json
    assert facts["files"].keys() == {"init_policy.pt", "latest_checkpoint.pt"}
    assert facts["absent"].keys() == {"best_policy.pt", "final_policy.pt"}
    assert lab.run("train", "--resume", tmp_path / "cut").code == 0
    done = lab.run("export", tmp_path / "cut")
    assert done.code == 0
    assert "final_policy.pt" in done.out
    assert contents(tmp_path / "cut" / "export").keys() >= FILES


def test_a_damaged_object_is_refused_and_an_earlier_export_stays(lab: Lab, run: Path) -> None:
    before = contents(run / "export")
    state = [
        ref["hash"]
        for name, ref in json.loads((run / "checkpoints" / "init.json").read_text())["body"][
            "objects"
        ].items()
        if name.startswith("state/agent")
    ]
    victim = next(path for path in (run / "objects").rglob("*") if state[0].endswith(path.name))
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    victim.write_bytes(content)
    done = lab.run("export", run)
    assert done.code == 5, done.err
    assert str(victim) in done.err
    assert contents(run / "export") == before
    assert not list(run.glob(".export-*"))


def test_other_things_are_not_overwritten(lab: Lab, run: Path, tmp_path: Path) -> None:
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "best_policy.pt").write_text("three years of work")
    for target in (thesis, thesis / "best_policy.pt", thesis / "best_policy.pt" / "below"):
        done = lab.run("export", run, "--to", target)
        assert done.code == 2, done.err
        assert str(target) in done.err
    assert contents(thesis) == {"best_policy.pt": b"three years of work"}
    assert lab.run("export", run, "--to", "relative/place", cwd=tmp_path).code == 0
    assert contents(tmp_path / "relative" / "place").keys() >= FILES


def test_an_algorithm_without_files_of_its_own_exports_its_best_weights(
    lab: Lab, finished: Path, tmp_path: Path
) -> None:
    done = lab.run("export", finished, "--to", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    exported, kept = (load_file(place / "best_agent.safetensors") for place in (tmp_path / "out", finished))
    assert exported.keys() == kept.keys()
    assert all(exported[name].equal(kept[name]) for name in kept)
    assert done.json["files"].keys() == {"best_agent.safetensors"}
