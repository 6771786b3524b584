"""Control results are shown beside random actions and standing still, from the same starts."""

import json
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from eigen2.envs.config import GymConfig
from eigen2.envs.control.catalogue import control_task
from eigen2.envs.control.config import ControlConfig
from eigen2.evaluation.control import evaluate_control, evaluate_tasks

FIXED = {"mean_return", "std_return", "episodes", "random_return", "stand_still_return"}
PENDULUM = control_task(GymConfig(id="Pendulum-v1", max_episode_steps=40))
HOPPER = control_task(ControlConfig(task="dflex_hopper"))


def swing(observation: np.ndarray) -> np.ndarray:
    """Pushes in the direction of the pendulum's own speed."""
    return np.asarray(np.sign(observation[:, 2:3]))


def relax(observation: np.ndarray) -> np.ndarray:
    return np.zeros((len(observation), 3), np.float32)


def text(shown: Any) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(shown)
    return capture.get()


def test_the_fixed_fields_are_there_and_plain() -> None:
    found = evaluate_control(PENDULUM, swing, seed=3, episodes=6)
    facts = json.loads(json.dumps(found.facts, allow_nan=False))
    assert facts.keys() == FIXED | {"env", "verdict", "returns"}
    assert facts["episodes"] == len(facts["returns"]) == 6
    assert facts["mean_return"] == pytest.approx(np.mean(facts["returns"]))
    assert facts["std_return"] == pytest.approx(np.std(facts["returns"], ddof=1))
    assert f"{facts['random_return']:.1f}" in text(found.shown)
    (columns,) = found.series.values()
    assert columns["champion"].tolist() == facts["returns"]
    assert columns["stand_still"].mean() == facts["stand_still_return"]
    assert columns["length"].tolist() == [40] * 6


def test_a_single_episode_has_no_deviation() -> None:
    assert evaluate_control(PENDULUM, swing, seed=3, episodes=1).facts["std_return"] == 0.0


def test_looking_twice_finds_the_same() -> None:
    first, again = (evaluate_control(PENDULUM, swing, seed=3, episodes=5).facts for _ in range(2))
    assert first == again
    assert evaluate_control(PENDULUM, swing, seed=4, episodes=5).facts["returns"] != first["returns"]


def test_standing_still_is_the_middle_of_the_action_space_on_the_same_episodes() -> None:
    found = evaluate_control(HOPPER, relax, seed=3, episodes=4)
    assert found.facts["mean_return"] == found.facts["stand_still_return"]
    assert found.facts["note"] in text(found.shown)
    assert "no better than both" in text(found.shown)


def test_several_tasks_are_shown_each_by_itself_and_by_their_means() -> None:
    found = evaluate_tasks([(PENDULUM, swing), (HOPPER, relax)], seed=3, episodes=4)
    assert found.facts.keys() == FIXED | {"env", "note", "tasks"}
    alone = {
        "Pendulum-v1": evaluate_control(PENDULUM, swing, seed=3, episodes=4),
        "dflex_hopper": evaluate_control(HOPPER, relax, seed=3, episodes=4),
    }
    for name, facts in found.facts["tasks"].items():
        assert facts == {
            key: value for key, value in alone[name].facts.items() if key not in ("env", "note", "verdict")
        }
    assert found.facts["mean_return"] == pytest.approx(
        np.mean([one.facts["mean_return"] for one in alone.values()])
    )
    columns = found.series["episodes"]
    assert columns["task"].tolist() == [0] * 4 + [1] * 4
    np.testing.assert_array_equal(columns["random"][4:], alone["dflex_hopper"].series["episodes"]["random"])
