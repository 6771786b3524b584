"""Both kinds of environments keep the same promises: streams that restart, episodes from seeds, and reuse."""

from collections.abc import Iterator

import numpy as np
import pytest

from eigen2.envs.config import GymConfig
from eigen2.envs.control import gymnasium_task
from eigen2.envs.control.catalogue import control_task
from eigen2.envs.control.config import ControlConfig
from eigen2.envs.control.environments import Environments, Task
from eigen2.envs.control.reference_policies import at_random, stand_still
from eigen2.envs.control.rollout import MOST_STEPS, play, play_episodes
from eigen2.envs.gym import GymEnv, make_gym
from eigen2.errors import ConfigError

CONFIGS = {
    "simulated": ControlConfig(task="dflex_hopper"),
    "gymnasium": GymConfig(id="Pendulum-v1", max_episode_steps=40),
}


@pytest.fixture(params=CONFIGS)
def task(request: pytest.FixtureRequest) -> Iterator[Task]:
    made = control_task(CONFIGS[request.param])
    yield made
    made.close()


def actions(task: Task, steps: int, count: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1.0, 1.0, (steps, count, task.action_size))


def trace(environments: Environments, plan: np.ndarray) -> list[np.ndarray]:
    steps = [environments.step(action) for action in plan]
    return [np.stack([getattr(step, name) for step in steps]) for name in steps[0].__dataclass_fields__]


def test_episodes_depend_on_their_seed_and_actions_alone(task: Task) -> None:
    plan, together = actions(task, 30, 3), task.environments(3)
    together.reset([4, 5, 6])
    first, found = together.observation.copy(), trace(together, plan)
    for index, seed in enumerate([4, 5, 6]):
        alone = task.environments(1)
        alone.reset([seed])
        np.testing.assert_array_equal(alone.observation[0], first[index])
        for ours, theirs in zip(trace(alone, plan[:, index : index + 1]), found, strict=True):
            np.testing.assert_array_equal(ours[:, 0], theirs[:, index])


def test_a_restarted_stream_is_exactly_a_fresh_one(task: Task) -> None:
    plan = actions(task, 80, 3)
    fresh = trace(task.open(3, 7, "start"), plan)
    used = task.open(3, 1, "other")
    trace(used, plan)
    used.reset([1, 2])
    trace(used, plan[:10])
    used.restart(7, "start")
    for a, b in zip(trace(used, plan), fresh, strict=True):
        np.testing.assert_array_equal(a, b)
    assert used.state_dict().keys() == task.open(3, 7, "start").state_dict().keys()


def test_finished_and_unused_episodes_stay_frozen(task: Task) -> None:
    environments = task.environments(3)
    environments.reset([1, 2])
    assert not environments.observation[2].any()
    playing = np.array([True, True, False])
    for action in actions(task, 1000, 3):
        before = environments.observation
        step = environments.step(action)
        np.testing.assert_array_equal(step.observation[~playing], before[~playing])
        assert not step.reward[~playing].any()
        assert not (step.terminated | step.truncated)[~playing].any()
        np.testing.assert_array_equal(step.observation, step.successor)
        playing &= ~(step.terminated | step.truncated)
    assert not playing.any()


def test_more_seeds_than_environments_are_refused(task: Task) -> None:
    with pytest.raises(ValueError, match="4 seeds for 3"):
        task.environments(3).reset([1, 2, 3, 4])


def test_a_rollout_is_one_whole_episode_for_each_seed(task: Task) -> None:
    together = play(task.environments(3), stand_still(task), [11, 12, 13])
    alone = [play(task.environments(1), stand_still(task), [seed]) for seed in (11, 12, 13)]
    assert together.returns.tolist() == [one.returns[0] for one in alone]
    assert together.lengths.tolist() == [one.lengths[0] for one in alone]
    assert len(play(task.environments(3), stand_still(task), [11]).returns) == 1


@pytest.mark.parametrize("seeds", [None, [3, 4, 5]])
def test_recorded_episodes_hold_what_was_earned(task: Task, seeds: list[int] | None) -> None:
    environments = task.environments(3)
    environments.restart(1, "start")
    played = play(environments, at_random(task, 0), seeds, record=True)
    for (steps, after), earned, length in zip(
        played.transitions, played.returns, played.lengths, strict=True
    ):
        assert {len(column) for column in steps.values()} == {length}
        assert steps["reward"].sum() == pytest.approx(earned, rel=1e-4, abs=1e-4)
        ended = steps["terminated"] | steps["truncated"]
        assert ended[-1].all()
        assert not ended[:-1].any()
        assert after["obs"].shape == (1, task.observation_size)
        assert not np.array_equal(after["obs"], steps["obs"][-1])


def test_every_episode_counts_once_and_evaluations_repeat(task: Task) -> None:
    first = play_episodes(task, stand_still(task), 6, seed=1)
    again = play_episodes(task, stand_still(task), 6, seed=1)
    np.testing.assert_array_equal(first.returns, again.returns)
    assert (first.lengths < 1000).all()
    assert play_episodes(task, stand_still(task), 6, seed=1, purpose="other").mean != first.mean


def test_an_evaluation_makes_no_environments_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def noted(config: GymConfig) -> GymEnv:
        made.append(make_gym(config))
        return made[-1]

    monkeypatch.setattr(gymnasium_task, "make_gym", noted)
    task = control_task(CONFIGS["gymnasium"])
    play_episodes(task, stand_still(task), 4, seed=1)
    count = len(made)
    play_episodes(task, at_random(task, 0), 4, seed=2)
    assert len(made) == count == 5  # one to ask for its sizes


def test_closing_a_task_closes_all_its_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    monkeypatch.setattr(gymnasium_task.GymnasiumEnvironments, "close", lambda self: closed.append(self.count))
    task = control_task(CONFIGS["gymnasium"])
    task.open(3, 0, "start")
    task.environments(2)
    task.close()
    assert sorted(closed) == [2, 3]


def test_an_endless_episode_is_refused_with_the_key_to_set() -> None:
    task = control_task(GymConfig(id="Pendulum-v1"))
    task.episode_steps = None
    environments = task.environments(1)
    assert isinstance(environments, gymnasium_task.GymnasiumEnvironments)
    environments._envs[0] = environments._envs[0].unwrapped
    with pytest.raises(ConfigError, match=f"within {MOST_STEPS} steps; set env.max_episode_steps"):
        play(environments, stand_still(task), [0])
