"""Any continuous Gymnasium environment works; others are refused with a sentence."""

import gymnasium
import pytest

from eigen2.envs.config import GymConfig
from eigen2.envs.gym import make_gym
from eigen2.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CartPole-v1", "continuous actions"),
        ("Pendulm-v1", "nearest is Pendulum-v1"),
        ("pendulum-v1", "nearest is Pendulum-v1"),
        ("Pendulum-v77", "nearest is Pendulum-v"),
        ("no_such_module:Thing-v0", "needs a Python module that is not installed"),
        ("eigen2/Trading-v0", "env=trading"),
    ],
)
def test_environments_we_cannot_act_in_are_refused_by_name(name, message):
    with pytest.raises(ConfigError, match=message) as failure:
        make_gym(GymConfig(id=name))
    assert f"env.id={name}" in str(failure.value)


def test_a_missing_package_names_the_extra_to_install(monkeypatch):
    def without_simulator():
        raise gymnasium.error.DependencyNotInstalled("MuJoCo is not installed")

    monkeypatch.setitem(
        gymnasium.registry,
        "NeedsSimulator-v0",
        gymnasium.envs.registration.EnvSpec(id="NeedsSimulator-v0", entry_point=without_simulator),
    )
    with pytest.raises(ConfigError, match=r"pip install eigen2\[control\]"):
        make_gym(GymConfig(id="NeedsSimulator-v0"))


def test_a_simulator_warns_about_a_model_once_and_not_for_every_copy(capfd):
    pytest.importorskip("mujoco")
    for _ in range(3):
        make_gym(GymConfig(id="HalfCheetah-v5")).close()
    said = capfd.readouterr()
    assert (said.out + said.err).count("settotalmass") <= 1
