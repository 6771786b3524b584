"""`eigen2 export`: plain files, a card that says what they are worth, and nothing half-written."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from command_lab import PENDULUM, RANDOM_SEARCH, WORLD_MODEL, Lab, Moment
from safetensors.torch import load_file

import eigen2
from eigen2.algorithms.pwm.export import load_policy

GYM_PWM = (*(o for o in WORLD_MODEL if o != "env=pendulum"), "env=gym", "env.max_episode_steps=20")
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
    champion = {"champion.json", "champion.safetensors", "champion.pt2"}
    assert {path.name for path in (ended / "export").iterdir()} == {
        *FILES,
        *champion,
        "README.md",
        "export.json",
    }
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


def damage_state(run: Path, checkpoint: str) -> Path:
    """Changes a byte of an object that this checkpoint names and no earlier call has changed."""
    objects = json.loads((run / "checkpoints" / f"{checkpoint}.json").read_text())["body"]["objects"]
    name: str = next(ref["hash"] for part, ref in objects.items() if part.startswith("state/agent"))
    victim = run / "objects" / name[:2] / name[2:]
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    victim.write_bytes(content)
    return victim


def test_a_damaged_checkpoint_is_left_out_by_name_and_without_a_good_one_the_earlier_export_stays(
    lab: Lab, run: Path
) -> None:
    victim = damage_state(run, "init")
    done = lab.run("export", run)
    assert done.code == 0, done.err
    assert str(victim) in done.err
    after = contents(run / "export")
    assert "init_policy.pt" not in after
    manifests = [json.loads(path.read_text())["body"] for path in (run / "checkpoints").iterdir()]
    for name in {ref["hash"] for manifest in manifests for ref in manifest["objects"].values()}:
        (run / "objects" / name[:2] / name[2:]).write_bytes(b"damaged")
    done = lab.run("export", run)
    assert done.code == 5, done.err
    assert contents(run / "export") == after
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


def test_an_algorithm_without_files_of_its_own_exports_its_best_weights(lab: Lab, tmp_path: Path) -> None:
    run = lab.train("mine", RANDOM_SEARCH, tmp_path)
    done = lab.run("export", run, "--to", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    exported, kept = (load_file(place / "best_agent.safetensors") for place in (tmp_path / "out", run))
    assert exported.keys() == kept.keys()
    assert all(exported[name].equal(kept[name]) for name in kept)
    assert done.json["files"].keys() == {"best_agent.safetensors"}


@pytest.mark.parametrize(
    ("overrides", "scale"), [(GYM_PWM, 2.0), (PENDULUM, 2.0)], ids=["pwm on Gymnasium", "erl on Gymnasium"]
)
def test_an_exported_champion_acts_within_the_bounds_of_its_environment(
    lab: Lab, tmp_path: Path, overrides: tuple[str, ...], scale: float
) -> None:
    """What the environment is given is what it was given in training: torques up to 2, not up to 1."""
    run = lab.train("mine", overrides, tmp_path)
    assert lab.run("export", run).code == 0
    observations = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32) * 3
    ours, theirs = eigen2.load(run), eigen2.load(run / "export")
    expected = ours.act(observations)
    assert expected.shape == (64, 1)
    np.testing.assert_array_equal(theirs.act(observations), expected)
    np.testing.assert_allclose(ours.act(observations[0]), expected[0], rtol=1e-5, atol=1e-6)
    graph = torch.export.load(run / "export" / "champion.pt2").module()
    np.testing.assert_allclose(
        graph(torch.as_tensor(observations)).detach().numpy(), expected, rtol=1e-4, atol=1e-5
    )
    assert 0.0 < np.abs(expected).max() <= scale
    facts = json.loads((run / "export" / "champion.json").read_text())
    assert (facts["action"]["low"], facts["action"]["high"]) == ([-scale], [scale])
    if (run / "export" / "best_policy.pt").exists():
        np.testing.assert_allclose(
            load_policy(run / "export" / "best_policy.pt")(observations), expected, rtol=1e-6
        )
        assert "in [-2, 2]" in (run / "export" / "README.md").read_text()


def test_a_policy_file_of_an_earlier_version_says_that_it_has_no_bounds(ended: Path, tmp_path: Path) -> None:
    contents = torch.load(ended / "export" / "final_policy.pt", weights_only=True)
    del contents["action_low"], contents["action_high"]
    torch.save({**contents, "format": "eigen2-pwm-policy-1"}, tmp_path / "old.pt")
    with pytest.warns(UserWarning, match="without action bounds"):
        load_policy(tmp_path / "old.pt")
