import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.wrappers import FrameStackObservation, TransformObservation

from eigen2.envs.config import GymConfig
from eigen2.envs.control.environments import Environments, Task
from eigen2.envs.control.gymnasium_task import GymnasiumTask
from eigen2.errors import DamagedStateError, DataError


@pytest.fixture(params=["Pendulum-v1", "MountainCarContinuous-v0"])
def task(request: pytest.FixtureRequest) -> GymnasiumTask:
    return GymnasiumTask(GymConfig(id=request.param, max_episode_steps=60))


def trace(environments: Environments, plan: np.ndarray) -> list[np.ndarray]:
    steps = [environments.step(action) for action in plan]
    return [np.stack([getattr(step, name) for step in steps]) for name in steps[0].__dataclass_fields__]


def test_a_restored_environment_continues_bit_for_bit(task: Task) -> None:
    plan = np.random.default_rng(0).uniform(-1, 1, (150, 3, task.action_size))
    original = task.open(3, 7, "start")
    trace(original, plan[:100])
    state = original.state_dict()
    expected = trace(original, plan[100:])
    restored = task.open(3, 7, "start")
    restored.load_state_dict(state)
    for a, b in zip(trace(restored, plan[100:]), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_episode_that_ends_is_followed_by_another_with_its_own_start(task: Task) -> None:
    environments = task.open(2, 7, "start")
    plan = np.random.default_rng(0).uniform(-1, 1, (130, 2, task.action_size))
    observation, successor, _, terminated, truncated = trace(environments, plan)
    ended = terminated | truncated
    assert ended.sum() >= 4
    assert not (terminated & truncated).any()
    np.testing.assert_array_equal((observation != successor).any(-1), ended)
    starts = observation[ended]
    assert len(np.unique(starts, axis=0)) == len(starts)


def test_environments_and_seeds_start_differently(task: Task) -> None:
    starts = np.concatenate([task.open(2, seed, "start").observation for seed in (1, 2)])
    assert len(np.unique(starts, axis=0)) == 4
    np.testing.assert_array_equal(task.open(2, 1, "start").observation, starts[:2])


def test_the_state_of_another_environment_is_refused() -> None:
    pendulum, car = (
        GymnasiumTask(GymConfig(id=name)) for name in ("Pendulum-v1", "MountainCarContinuous-v0")
    )
    with pytest.raises(DamagedStateError, match="Pendulum-v1"):
        car.open(2, 0, "start").load_state_dict(pendulum.open(2, 0, "start").state_dict())


def pendulum(steps: int | None = None) -> GymnasiumTask:
    return GymnasiumTask(GymConfig(id="Pendulum-v1", max_episode_steps=steps))


def test_actions_are_stretched_from_unit_range_to_the_box() -> None:
    environments, env = pendulum().environments(1), gymnasium.make("Pendulum-v1")
    environments.reset([7])
    env.reset(seed=7)
    for unit, torque in [(-1.0, -2.0), (0.25, 0.5), (1.0, 2.0), (5.0, 2.0)]:
        step = environments.step(np.array([[unit]]))
        observation, reward, *_ = env.step(np.array([torque], np.float32))
        np.testing.assert_array_equal(step.observation[0], observation)
        assert step.reward[0] == reward


def test_truncation_is_told_from_termination() -> None:
    task = pendulum(4)
    assert task.episode_steps == 4
    environments = task.environments(2)
    environments.reset([0, 1])
    steps = [environments.step(np.zeros((2, 1))) for _ in range(6)]
    assert [bool(step.truncated.all()) for step in steps] == [False, False, False, True, False, False]
    assert not any(step.terminated.any() for step in steps)


@pytest.mark.parametrize("bad", [np.zeros((2, 2)), np.full((2, 1), np.nan)])
def test_bad_actions_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"Pendulum-v1 needs finite actions of shape \(2, 1\)"):
        pendulum().open(2, 0, "start").step(bad)


class Pictures(gymnasium.Env[Any, Any]):
    """Noise, or a black screen."""

    action_space = Box(-1, 1, (1,))
    observation_space = Box(0, 1, (6, 8))

    def __init__(self, brightness: float = 1.0) -> None:
        self.brightness = np.float32(brightness)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._picture(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._picture(), 0.0, False, False, {}

    def _picture(self) -> Any:
        return self.brightness * self.np_random.random((6, 8), np.float32)


@pytest.fixture
def rows_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[gymnasium.Env[Any, Any]], int | None]:
    """What an environment's observations are found to be stacks of."""

    def found(env: gymnasium.Env[Any, Any]) -> int | None:
        spec = gymnasium.envs.registration.EnvSpec("Played-v0", entry_point=lambda **_: env)
        monkeypatch.setitem(gymnasium.registry, "Played-v0", spec)
        return GymnasiumTask(GymConfig(id="Played-v0")).observation_rows

    return found


Rows = Callable[[gymnasium.Env[Any, Any]], int | None]


@pytest.mark.parametrize("padding", ["reset", "zero"])
def test_a_stack_of_frames_is_seen(padding: str, rows_of: Rows) -> None:
    assert rows_of(FrameStackObservation(Pictures(), 4, padding_type=padding)) == 4


def test_pictures_and_black_screens_are_no_stacks(rows_of: Rows) -> None:
    assert rows_of(Pictures()) is None
    assert rows_of(Pictures(0.0)) is None
    assert rows_of(FrameStackObservation(Pictures(0.0), 4)) is None


def test_windows_over_a_market_are_stacks_of_days(rows_of: Rows) -> None:
    env = gymnasium.make("eigen2/Trading-v0", data="random_walk", window=8)
    space: Any = env.observation_space
    assert rows_of(TransformObservation(env, lambda seen: seen["window"], space["window"])) == 8


def test_vectors_are_no_stacks(task: GymnasiumTask) -> None:
    assert task.observation_rows is None


class Faulty(gymnasium.Env[Any, Any]):
    """Fails in one of the ways in which a first environment does."""

    action_space = Box(-1, 1, (1,))
    observation_space = Box(-np.inf, np.inf, (3,), np.float64)

    def __init__(self, way: str) -> None:
        self.way = way
        if way == "init":
            raise RuntimeError("no licence")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if self.way == "reset":
            raise ConnectionError("socket closed")
        if self.way == "words":
            return "start", {}
        return np.zeros(5 if self.way == "shape" else self.observation_space.shape), {}

    def step(self, action: Any) -> Any:
        if self.way == "step":
            raise ValueError("joint 3 exploded")
        if self.way == "exit":
            sys.exit(0)
        observation = np.full(self.observation_space.shape, 1e200 if self.way == "large" else 0.0)
        ends = np.zeros(2, np.bool_) if self.way == "ends" else False
        return observation, {"reward": None, "riches": 1e200}.get(self.way, 0.0), ends, False, {}


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("init", r"failed in its constructor: RuntimeError: no licence"),
        ("reset", r"failed in reset\(\): ConnectionError: socket closed"),
        ("shape", r"an observation of shape \(5,\), but its observation space has the shape \(3,\)"),
        ("step", r"failed in step\(\): ValueError: joint 3 exploded"),
        ("exit", r"failed in step\(\): SystemExit: 0"),
        ("large", r"too large for float32"),
        ("reward", r"failed in step\(\): TypeError"),
        ("riches", r"a reward that is not finite \(NaN, infinite, or too large for float32\)"),
        ("ends", r"failed in step\(\): ValueError: The truth value"),
        ("words", r"an observation that is no array of numbers: could not convert"),
    ],
)
def test_what_an_environment_does_wrong_is_said_with_its_name(
    way: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = gymnasium.envs.registration.EnvSpec(
        "Faulty-v0", entry_point=lambda **options: Faulty(**options), disable_env_checker=True
    )
    monkeypatch.setitem(gymnasium.registry, "Faulty-v0", spec)

    def play() -> None:
        environments = GymnasiumTask(GymConfig(id="Faulty-v0", kwargs={"way": way})).environments(1)
        environments.reset([7])
        environments.step(np.zeros((1, 1)))

    with pytest.raises(DataError, match=f"env.id=Faulty-v0 .*{message}"):
        play()


@pytest.mark.parametrize(
    ("way", "message"),
    [("reset", r"failed in reset\(\)"), ("step", r"failed in step\(\)"), ("shape", "of shape")],
)
def test_a_fault_while_stacks_are_looked_for_is_said_with_its_name(
    way: str, message: str, rows_of: Rows
) -> None:
    faulty = Faulty(way)
    faulty.observation_space = Box(-np.inf, np.inf, (4, 2))
    with pytest.raises(DataError, match=f"env.id=Played-v0 .*{message}"):
        rows_of(faulty)
