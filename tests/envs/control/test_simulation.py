from pathlib import Path

import numpy as np
import pytest

from eigen2.envs.control.catalogue import TASKS, make_task
from eigen2.envs.control.environments import Environments, Task
from eigen2.envs.control.simulation import SimulatedEnvironments
from eigen2.errors import ConfigError, DamagedStateError


def actions(task: Task, steps: int, count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (steps, count, task.action_size))


def trace(batch: Environments, plan: np.ndarray) -> list[np.ndarray]:
    steps = [batch.step(action) for action in plan]
    return [np.stack([getattr(step, name) for step in steps]) for name in steps[0].__dataclass_fields__]


def assert_same(first: list[np.ndarray], second: list[np.ndarray]) -> None:
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_restored_batch_continues_bit_for_bit(task: Task) -> None:
    plan = actions(task, 120, 4)
    original = task.open(4, 3, "start")
    trace(original, plan[:60])
    state = original.state_dict()
    expected = trace(original, plan[60:])
    restored = task.open(4, 3, "start")
    restored.load_state_dict(state)
    assert_same(trace(restored, plan[60:]), expected)


def test_saved_state_does_not_change_when_the_simulation_goes_on(task: Task) -> None:
    batch = task.open(2, 3, "start")
    state = batch.state_dict()
    kept = {name: np.array(value, copy=True) for name, value in state.items()}
    trace(batch, actions(task, 5, 2))
    for name, value in kept.items():
        np.testing.assert_array_equal(state[name], value)


def test_sizes_are_those_the_task_states(task: Task) -> None:
    step = task.open(3, 0, "start").step(np.zeros((3, task.action_size)))
    assert step.observation.shape == step.successor.shape == (3, task.observation_size)
    assert step.observation.dtype == step.reward.dtype == np.float32


def test_the_control_step_is_a_sixtieth_of_a_second() -> None:
    for name in set(TASKS) - {"pendulum"}:
        batch = TASKS[name]().open(1, 0, "start")
        batch.step(np.zeros((1, batch.task.action_size)))
        assert isinstance(batch, SimulatedEnvironments)
        np.testing.assert_allclose(batch._batch.bind("time"), 1 / 60)


def test_an_episode_ends_at_its_limit_and_the_next_one_starts_elsewhere() -> None:
    task = make_task("pendulum")
    batch = task.open(2, 0, "start")
    first = batch.observation.copy()
    for number in range(task.episode_steps):
        step = batch.step(np.zeros((2, 1)))
        assert step.truncated.all() == (number == task.episode_steps - 1)
        assert not step.terminated.any()
    assert (step.observation != step.successor).any(1).all()
    assert (step.observation != first).any(1).all()


def test_a_fallen_hopper_terminates_and_stands_up_again() -> None:
    batch = make_task("dflex_hopper").open(4, 0, "start")
    fallen = 0
    for action in actions(batch.task, 200, 4):
        step = batch.step(action)
        fallen += step.terminated.sum()
        assert (step.successor[step.terminated, 0] < -0.45).all()
        assert (step.observation[:, 0] > -0.45).all()
    assert fallen > 4


def test_a_diverged_simulation_ends_its_episode_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    batch = make_task("dflex_ant").open(3, 0, "start")
    before = batch.observation.copy()
    assert isinstance(batch, SimulatedEnvironments)
    batch._qvel[1] = np.nan
    step = batch.step(np.zeros((3, 8)))
    assert step.terminated.tolist() == [False, True, False]
    assert batch.faults == 1
    assert step.reward[1] == 0
    np.testing.assert_array_equal(step.successor[1], before[1])
    assert np.isfinite(step.observation).all()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", [np.zeros((2, 8)), np.full((3, 8), np.nan)])
def test_bad_actions_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match="dflex_ant needs finite actions"):
        make_task("dflex_ant").open(3, 0, "start").step(bad)


def test_the_state_of_another_task_is_refused() -> None:
    state = make_task("pendulum").open(3, 0, "start").state_dict()
    with pytest.raises(DamagedStateError, match="pendulum"):
        make_task("dflex_hopper").open(3, 0, "start").load_state_dict(state)


def test_an_unknown_task_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="dflex_ant"):
        make_task("dflex_dog")


def test_a_pendulum_driven_in_circles_keeps_to_its_speed_limit() -> None:
    batch = make_task("pendulum").open(2, 0, "start")
    speeds = np.abs([batch.step(np.sign(batch.observation[:, 2:])).successor[:, 2] for _ in range(150)])
    assert speeds.max() == 8.0
