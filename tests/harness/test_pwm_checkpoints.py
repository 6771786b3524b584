"""Which checkpoints a PWM run leaves: init once, the best by real evaluation, the newest two, final with replay."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_lab import WORLD_MODEL, Lab, Moment

from eigen2.config import load_config
from eigen2.store.checkpoints import Checkpoints

LONGER = (*WORLD_MODEL, "alg.iterations=7", "alg.evaluate_every=2", "checkpoint.every=3")


def manifests(run: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text())["body"] for path in (run / "checkpoints").iterdir()}


@pytest.fixture(scope="module")
def run(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lab.train("mine", LONGER, tmp_path_factory.mktemp("checkpoints"))


def test_a_run_leaves_its_checkpoints_and_nothing_else(run: Path) -> None:
    logs = {f"{name}.jsonl" for name in ("metrics", "events", "lineage", "memory", "evaluations")}
    wanted = {
        "config.yaml",
        "run.json",
        "lock",
        "objects",
        "objects.lock",
        "checkpoints",
        "best_agent.safetensors",
        *logs,
    }
    assert {path.name for path in run.iterdir()} == wanted
    found = manifests(run)
    assert {name: manifest["step"] for name, manifest in found.items() if name != "best"} == {
        "init": 0, "previous": 6, "latest": 7, "final": 7,
    }  # fmt: skip
    named = {ref["hash"] for manifest in found.values() for ref in manifest["objects"].values()}
    stored = {path.parent.name + path.name for path in (run / "objects").rglob("*") if path.is_file()}
    (evaluation,) = (json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines())
    assert stored == named | set(evaluation["series"].values())


def test_final_holds_the_replay_and_what_is_only_looked_at_does_not(run: Path) -> None:
    found = manifests(run)
    assert found["final"]["replay_step"] == 7
    assert found["final"]["replay"]["total"] == 4 * (12 + 7 * 4)
    assert found["init"]["replay"] is found["best"]["replay"] is None


def test_best_is_the_best_closed_loop_evaluation(run: Path) -> None:
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    evaluated = {record["step"]: record["eval_return"] for record in metrics if "eval_return" in record}
    assert evaluated.keys() == {2, 4, 6, 7}
    best = Checkpoints(run).load("best").state()["best"]
    assert best["score"] == max(evaluated.values())
    assert evaluated[best["iteration"]] == best["score"]


def test_init_is_written_once(lab: Lab, run: Path, tmp_path: Path) -> None:
    overrides = (*LONGER, f"run.root={tmp_path}", "run.name=cut")
    assert lab.run("train", *overrides, moments=(Moment("stepped", "SIGKILL", 5),)).killed
    before = (tmp_path / "cut" / "checkpoints" / "init.json").read_bytes()
    assert lab.run("train", "--resume", tmp_path / "cut").code == 0
    assert (tmp_path / "cut" / "checkpoints" / "init.json").read_bytes() == before


def test_a_run_whose_parts_are_not_its_own_is_refused_untouched(lab: Lab, run: Path, tmp_path: Path) -> None:
    overrides = (*LONGER, f"run.root={tmp_path}", "run.name=cut")
    assert lab.run("train", *overrides, moments=(Moment("stepped", "SIGKILL", 5),)).killed
    cut = tmp_path / "cut"
    (cut / "evaluations.jsonl").mkdir()
    done = lab.run("train", "--resume", cut)
    assert done.code == 5
    assert "evaluations.jsonl" in done.err
    (cut / "evaluations.jsonl").rmdir()
    assert lab.run("train", "--resume", cut).code == 0
    assert json.loads((cut / "run.json").read_text())["status"] == "done"
    assert lab.run("fingerprint", cut).out == lab.run("fingerprint", run).out
    assert manifests(cut)["final"]["step"] == 7


@pytest.mark.parametrize(
    "preset", ["pwm_5M", "pwm_19M", "pwm_48M", "pwm_317M", "pwm_5M_flow", "pwm_48M_flow"]
)
def test_the_original_sizes_save_every_500_iterations(preset: str) -> None:
    assert load_config([f"alg={preset}", "env=dflex_ant"]).checkpoint.every == 500
