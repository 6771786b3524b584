"""What can be set, what cannot, and what the user is told."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from eigen2.algorithms.contract import Services
from eigen2.algorithms.sb3 import SB3, SB3Config
from eigen2.config import Config
from eigen2.envs.config import GymConfig
from eigen2.envs.control.config import TasksConfig
from eigen2.errors import ConfigError
from eigen2.store.state import fingerprint


@pytest.mark.parametrize(
    ("algorithm", "settings", "message"),
    [
        (
            "sac",
            {"learning_rat": 0.1},
            "SAC has no setting learning_rat; did you mean `alg.settings.learning_rate`",
        ),
        ("ppo", {"tau": 0.1}, "PPO has no setting tau; did you mean"),
        ("sac", {"seed": 1}, "alg.settings.seed cannot be set: Eigen2 decides it"),
        ("sac", {"buffer_size": 10}, "alg.settings.buffer_size cannot be set"),
        ("td3", {"n_steps": 3}, "alg.settings.n_steps cannot be set"),
        ("ppo", {"tensorboard_log": "logs"}, "alg.settings.tensorboard_log cannot be set"),
        ("ppo", {"batch_size": "many"}, "`alg.settings.batch_size`: must be a whole number"),
        ("sac", {"gamma": "two"}, "`alg.settings.gamma`: must be a number"),
        ("sac", {"train_freq": [1, "week"]}, "SAC refuses `alg.settings=.*week"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(
    algorithm: str, settings: dict[str, Any], message: str, make: Any
) -> None:
    with pytest.raises(ConfigError, match=message):
        make(algorithm, settings=settings)


def test_presets_name_the_three_algorithms() -> None:
    presets = SB3().presets()
    assert {name: preset.get("algorithm", "sac") for name, preset in presets.items()} == {
        "sb3_sac": "sac",
        "sb3_td3": "td3",
        "sb3_ppo": "ppo",
    }


def test_several_tasks_at_once_are_refused() -> None:
    reason = SB3().accepts(TasksConfig())
    assert reason is not None
    assert "env=gym" in reason
    assert SB3().accepts(GymConfig()) is None


def test_no_number_is_shown_before_there_is_one(make: Any) -> None:
    trainer = make("ppo", "Pendulum-v1", evaluate_every=2)
    metrics = trainer.step()
    assert not {"train_return", "eval_return"} & metrics.keys()
    assert trainer.best_score == float("-inf")
    assert trainer.best_weights()
    assert "eval_return" in trainer.step()


def test_an_experiment_evaluates_the_best_policy_and_goes_on_unchanged() -> None:
    alg = SB3Config(algorithm="ppo", settings={"n_steps": 64, "n_epochs": 1}, evaluate_episodes=1)
    config = Config(seed=1, device="cpu", alg=alg, env=GymConfig(max_episode_steps=20))
    with SB3().open(config, Services(None, fingerprint)) as experiment:  # type: ignore[arg-type]
        experiment.trainer.step()
        before = fingerprint(experiment.trainer.state_dict())
        evaluation = experiment.evaluate("validation")
        assert fingerprint(experiment.trainer.state_dict()) == before
    assert evaluation.facts["episodes"] == 20
    assert set(experiment.trainer.owners()) >= {"networks"}


def test_importing_the_plug_in_imports_neither_torch_nor_sb3() -> None:
    script = "import sys, eigen2.algorithms.sb3; sys.exit(', '.join({'torch', 'stable_baselines3'} & set(sys.modules)) or None)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_plug_in_stays_small() -> None:
    from pathlib import Path

    import eigen2.algorithms.sb3 as package

    # `needs` is a forecast, which an algorithm may leave out.
    files = [file for file in Path(package.__file__).parent.rglob("*.py") if file.name != "needs.py"]
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) < 220


@pytest.mark.parametrize("algorithm", ["sac", "td3", "ppo"])
@pytest.mark.parametrize("sde", [False, True])
def test_the_best_policy_acts_as_the_best_weights_say(algorithm: str, sde: bool, make: Any) -> None:
    trainer = make(algorithm, settings={} if algorithm == "td3" else {"use_sde": sde})
    for _ in range(3):
        trainer.step()
    observation = np.linspace(-1.0, 1.0, 10, dtype=np.float32).reshape(5, 2)
    acted = trainer.best_policy()(observation)
    trainer.model.policy.load_state_dict(trainer.best_weights())
    assert np.array_equal(acted, trainer.model.predict(observation, deterministic=True)[0])
    assert trainer.problem.score(trainer.best_policy(), 1) == trainer.best_score
