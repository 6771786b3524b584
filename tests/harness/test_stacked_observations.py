"""Runs on stacked observations keep each frame once, learn what they would learn without, and resume exactly."""

from pathlib import Path

import pytest
from command_lab import ALGORITHM, SB3, SMALL_PWM, Lab, Moment

from eigen2.algorithms import registry
from eigen2.config import load_config
from eigen2.harness.host import Host

ENVS = """
import gymnasium, numpy as np
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, FrameStackObservation

class Screen(gymnasium.Env):
    action_space = spaces.Box(-1, 1, (2,))
    observation_space = spaces.Box(-np.inf, np.inf, (16, 16))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-1, 1, 2)
        return self.frame(), {}

    def step(self, action):
        self.at = np.clip(self.at + 0.2 * action, -1, 1)
        return self.frame(), -float(np.abs(self.at).sum()), False, False, {}

    def frame(self):
        return (self.at.sum() + self.np_random.normal(0, 0.1, (16, 16))).astype(np.float32)

def stacked(flat=False):
    env = FrameStackObservation(Screen(), 16)
    return FlattenObservation(env) if flat else env

gymnasium.register("Stack-v0", entry_point=stacked, max_episode_steps=40)
"""
STACK = ("env=gym", "env.id=own_screens:Stack-v0")
FLAT = "env.kwargs={flat: true}"
ALGORITHMS = {
    "erl": (*STACK, *ALGORITHM),
    "pwm": ("alg=pwm_tiny", *SMALL_PWM, *STACK, "alg.steps=60"),
    "sac": (*SB3["sac"], *STACK, "alg.env_steps=300", "env.max_episode_steps=40"),
}


def learned(run: Path) -> list[bytes]:
    return [(run / name).read_bytes() for name in ("metrics.jsonl", "best_agent.safetensors")]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "own_screens.py").write_text(ENVS)
    return tmp_path


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_frames_are_kept_once_and_learning_is_the_same(lab: Lab, here: Path, algorithm: str) -> None:
    stacked = lab.train("stacked", ALGORITHMS[algorithm], here, cwd=here)
    flat = lab.train("flat", ALGORITHMS[algorithm], here, FLAT, cwd=here)
    assert learned(stacked) == learned(flat)
    rows, vectors = (lab.run("replay", "info", run, "--json").json for run in (stacked, flat))
    assert rows["transitions"] == vectors["transitions"] >= 200
    assert rows["naive_bytes"] == vectors["naive_bytes"] < 3 * vectors["ram_bytes"]
    assert rows["ram_bytes"] < vectors["ram_bytes"] / 2
    assert rows["disk_bytes"] < vectors["disk_bytes"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_killed_run_on_stacks_goes_on_to_the_same_end(lab: Lab, here: Path, algorithm: str) -> None:
    straight = lab.train("straight", ALGORITHMS[algorithm], here, cwd=here)
    overrides = (*ALGORITHMS[algorithm], f"run.root={here}", "run.name=killed")
    assert lab.run("train", *overrides, cwd=here, moments=(Moment("stepped", "SIGKILL", 2),)).killed
    done = lab.run("train", "--resume", here / "killed", "--env-id", "own_screens:Stack-v0", cwd=here)
    assert done.code == 0, done.err
    killed = here / "killed"
    assert learned(killed) == learned(straight)
    assert lab.run("fingerprint", killed, cwd=here).out == lab.run("fingerprint", straight, cwd=here).out
    info = [lab.run("replay", "info", run, "--json").json for run in (killed, straight)]
    assert info[0] == info[1]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_forecast_counts_frames_once(here: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str) -> None:
    monkeypatch.chdir(here)
    needs = []
    for overrides in (ALGORITHMS[algorithm], (*ALGORITHMS[algorithm], FLAT)):
        config = load_config(overrides)
        found = registry.algorithm(config.alg.kind).needs(config, Host(config).services)
        assert found is not None
        needs.append(found)
    stacked, flat = needs
    frame, stack = 16 * 16 * 4, 16 * 16 * 16 * 4
    assert stack < flat.record < stack + 100
    assert frame < stacked.record < frame + 300
    assert stacked.peaks == flat.peaks, "rollouts and batches hold whole observations"
