"""Several tasks from stored experience, through the same commands, checkpoints and kills as everything else."""

import json
import shutil
from pathlib import Path

import pytest
from command_lab import WORLD_MODEL, Lab, Moment, story

TASKS = (*WORLD_MODEL, "env=tasks", "alg.multitask.embedding=4", "alg.multitask.policy_iterations=2")


@pytest.fixture(scope="module")
def sources(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of two tasks with different observations and actions; nobody may change them."""
    root = tmp_path_factory.mktemp("sources")
    return [lab.train(name, (*WORLD_MODEL, f"env={name}"), root) for name in ("pendulum", "dflex_hopper")]


def given(sources: list[Path]) -> str:
    return f"env.replays=[{','.join(str(path) for path in sources)}]"


def test_every_task_is_scored_in_its_own_environment(lab: Lab, sources: list[Path], tmp_path: Path) -> None:
    done = lab.run("train", *TASKS, given(sources), "--log-dir", tmp_path, "--json")
    assert done.code == 0, done.err
    assert "not comparable with dflex's" in done.err
    run = tmp_path / "pwm_tiny_tasks_seed7"
    facts = done.json["evaluation"]
    assert facts["tasks"].keys() == {"pendulum", "dflex_hopper"}
    wanted = {"mean_return", "std_return", "episodes", "random_return", "stand_still_return"}
    for scores in (facts, *facts["tasks"].values()):
        assert wanted <= scores.keys()
    trained_on = json.loads((run / "run.json").read_text())["trained_on"]
    assert [source["path"] for source in trained_on] == [str(path) for path in sources]
    (listed,) = lab.run("runs", "--root", tmp_path, "--json").json
    assert (listed["step"], listed["steps"]) == (7, 7)
    assert "dflex_hopper" in lab.run("evaluate", run).out
    assert lab.run("verify-resume", run, "--json").json["ok"]
    refused = lab.run("export", run)
    assert refused.code == 2
    assert "best_agent.safetensors" in refused.err


@pytest.mark.parametrize("step", [2, 6])
def test_a_killed_run_goes_on_bit_for_bit_without_its_sources(
    lab: Lab, sources: list[Path], tmp_path: Path, step: int
) -> None:
    straight = lab.train("straight", (*TASKS, given(sources)), tmp_path)
    copies = [Path(shutil.copytree(path, tmp_path / path.name)) for path in sources]
    overrides = (*TASKS, "env.replays=[pendulum,dflex_hopper]", f"run.root={tmp_path}", "run.name=cut")
    assert lab.run("train", *overrides, moments=(Moment("stepped", "SIGKILL", step),)).killed
    for copy in copies:
        shutil.rmtree(copy)
    done = lab.run("train", "--resume", tmp_path / "cut")
    assert done.code == 0, done.err
    assert story(tmp_path / "cut") == story(straight)
    assert lab.run("fingerprint", tmp_path / "cut").out == lab.run("fingerprint", straight).out


def test_data_that_cannot_be_used_is_refused_before_a_run_exists(
    lab: Lab, sources: list[Path], finished: Path, tmp_path: Path
) -> None:
    damaged = Path(shutil.copytree(sources[0], tmp_path / "damaged"))
    objects = json.loads((damaged / "checkpoints" / "final.json").read_text())["body"]["objects"]
    segment = next(ref["hash"] for name, ref in objects.items() if name.startswith("replay/"))
    victim = next(path for path in (damaged / "objects").rglob("*") if segment.endswith(path.name))
    victim.write_bytes(victim.read_bytes()[:-3])
    cases = [
        ("env.replays=[]", 2, "env.replays="),
        (f"env.replays=[{sources[0]},nowhere]", 2, "nowhere"),
        (given([sources[0], finished]), 3, str(finished)),
        (given([damaged, sources[1]]), 5, str(victim)),
        (f"{given(sources)} alg.pretrain.replay={sources[0]}", 2, "alg.pretrain.replay"),
    ]
    for overrides, code, words in cases:
        done = lab.run("train", *TASKS, *overrides.split(), "--log-dir", tmp_path / "runs")
        assert done.code == code, (overrides, done.err)
        assert words in done.err
        assert len(done.err.splitlines()) == 1
        assert not (tmp_path / "runs").exists()
