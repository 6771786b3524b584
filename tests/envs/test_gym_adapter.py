"""Any continuous Gymnasium environment works; others are refused with a sentence."""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from eigen2.envs.config import GymConfig
from eigen2.envs.control.catalogue import control_task
from eigen2.envs.gym import make_gym
from eigen2.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CartPole-v1", "continuous actions"),
        ("Pendulm-v1", "nearest is Pendulum-v1"),
        ("pendulum-v1", "nearest is Pendulum-v1"),
        ("Pendulum-v77", "nearest is Pendulum-v"),
        ("no_such_module:Thing-v0", "neither installed nor a file in"),
        ("eigen2/Trading-v0", "env=trading"),
    ],
)
def test_environments_we_cannot_act_in_are_refused_by_name(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as failure:
        make_gym(GymConfig(id=name))
    assert f"env.id={name}" in str(failure.value)


@pytest.mark.parametrize(
    ("missing", "extra"),
    [
        ("MuJoCo is not installed, run `pip install a`", True),
        ("Box2D is not installed, run `pip install b`", False),
    ],
)
def test_a_missing_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: str, extra: bool
) -> None:
    def without_simulator(**_: Any) -> gymnasium.Env[Any, Any]:
        raise gymnasium.error.DependencyNotInstalled(missing)

    monkeypatch.setitem(
        gymnasium.registry,
        "NeedsSimulator-v0",
        gymnasium.envs.registration.EnvSpec(id="NeedsSimulator-v0", entry_point=without_simulator),
    )
    with pytest.raises(ConfigError) as refused:
        make_gym(GymConfig(id="NeedsSimulator-v0"))
    assert missing in str(refused.value)
    assert ("eigen2[control]" in str(refused.value)) == extra


def test_a_simulator_warns_about_a_model_once_and_not_for_every_copy(
    capfd: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("mujoco")
    for _ in range(3):
        make_gym(GymConfig(id="HalfCheetah-v5")).close()
    said = capfd.readouterr()
    assert (said.out + said.err).count("settotalmass") <= 1


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_bounds_so_wide_that_their_distance_overflows_are_refused(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wide(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(-1, 1, (3,))
        action_space = gymnasium.spaces.Box(np.finfo(kind).min, np.finfo(kind).max, (1,), kind)

    spec = gymnasium.envs.registration.EnvSpec(id="Wide-v0", entry_point=lambda **_: Wide())
    monkeypatch.setitem(gymnasium.registry, "Wide-v0", spec)
    with pytest.raises(ConfigError, match="high - low must be finite in float"):
        make_gym(GymConfig(id="Wide-v0"))


@pytest.mark.parametrize(("seen", "done"), [((0, 4), (1,)), ((3,), (0,))])
def test_empty_spaces_are_refused(
    seen: tuple[int, ...], done: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Empty(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(-1, 1, seen)
        action_space = gymnasium.spaces.Box(-1, 1, done)

    spec = gymnasium.envs.registration.EnvSpec(id="Empty-v0", entry_point=lambda **_: Empty())
    monkeypatch.setitem(gymnasium.registry, "Empty-v0", spec)
    with pytest.raises(ConfigError, match="neither may be empty"):
        make_gym(GymConfig(id="Empty-v0"))


MINE = """
import gymnasium, numpy as np
from gymnasium import spaces

class Mine(gymnasium.Env):
    action_space = spaces.Box(-1, 1, (1,))

    def __init__(self, side=0):
        self.observation_space = spaces.Box(0, 255, (side, side, 3), np.uint8) if side else spaces.Box(-1, 1, (3,))

gymnasium.register("Mine-v0", entry_point=Mine, max_episode_steps=20)
"""


def test_an_own_module_in_the_working_directory_is_found_and_takes_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_envs.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    name = "own_envs:Mine-v0"
    assert control_task(GymConfig(id=name)).note is None
    task = control_task(GymConfig(id=name, kwargs={"side": 8}))
    assert task.observation_size == 192
    assert task.note is not None
    assert "observations of shape (8, 8, 3) are flattened to 192 numbers" in task.note
    with pytest.raises(ConfigError, match=r"does not take env.kwargs=\{'size': 8\}"):
        make_gym(GymConfig(id=name, kwargs={"size": 8}))
    assert sys.path == path


def test_a_module_that_is_nowhere_is_not_about_mujoco(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="neither installed nor a file in") as caught:
        make_gym(GymConfig(id="no_such_envs:Mine-v0"))
    assert "MuJoCo" not in str(caught.value)


def test_a_module_that_imports_what_is_missing_is_not_called_missing_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy_envs.py").write_text("import no_such_physics\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="No module named 'no_such_physics'") as caught:
        make_gym(GymConfig(id="needy_envs:Mine-v0"))
    assert "neither installed" not in str(caught.value)
    (tmp_path / "needy_envs.py").write_text("")
    with pytest.raises(ConfigError, match=r"the module needy_envs\.tasks, which is neither installed"):
        make_gym(GymConfig(id="needy_envs.tasks:Mine-v0"))
