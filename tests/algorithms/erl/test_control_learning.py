"""ERL on control tasks: what a generation costs, who is validated, and that a resumed run goes on exactly."""

from typing import Any

import numpy as np
import pytest
import torch

from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.control import ControlTask, control_policy
from eigen2.algorithms.erl.trainer import ERLTrainer
from eigen2.config import load_config
from eigen2.envs.config import GymConfig
from eigen2.envs.control.catalogue import control_task
from eigen2.envs.control.config import ControlConfig
from eigen2.envs.control.rollout import play
from eigen2.evaluation.control import evaluate_control
from eigen2.replay import Replay
from eigen2.store.memory import MemoryObjects

EPISODE = 200
"""Steps of a Pendulum episode."""


def trainer_for(*overrides: str, env: str = "gym", seed: int = 0, replay: Replay | None = None) -> ERLTrainer:
    torch.set_num_threads(1)
    config = load_config([f"env={env}", f"seed={seed}", *overrides])
    assert isinstance(config.alg, ERLConfig)
    assert isinstance(config.env, GymConfig | ControlConfig)
    task = ControlTask(control_task(config.env), config.alg, seed, torch.device("cpu"))
    if replay is None:
        replay = Replay(task.schema(), config.replay.capacity, seed)
    return ERLTrainer(task, config.alg, replay, seed)


def control(trainer: ERLTrainer) -> ControlTask:
    assert isinstance(trainer.task, ControlTask)
    return trainer.task


def fresh_return(trainer: ERLTrainer, *, episodes: int = 20) -> float:
    task = control(trainer)
    policy = control_policy(task, trainer.champion.actor)
    found = evaluate_control(task.env, policy, seed=trainer.seed, episodes=episodes)
    return float(found.facts["mean_return"])


def test_every_environment_step_is_counted() -> None:
    trainer = trainer_for("alg.gradient_steps=1")
    alg = trainer.config
    trainer.step()
    assert alg.candidates is not None
    played = alg.population * alg.windows + alg.learners * alg.explore_episodes
    assert trainer.env_steps == EPISODE * (played + alg.candidates * alg.validation_windows)
    assert len(trainer.replay) == EPISODE * played


def test_learners_and_the_fittest_others_are_validated_and_nobody_else() -> None:
    trainer = trainer_for("alg.gradient_steps=1", "alg.candidates=3", "alg.learners=1")
    trainer.step()
    fitness = [record["fitness"] for record in trainer.lineage]
    best_others = sorted(range(1, len(fitness)), key=lambda slot: -fitness[slot])[:2]
    validated = [slot for slot, record in enumerate(trainer.lineage) if record["validation"] is not None]
    assert validated == sorted([0, *best_others])


def test_the_champion_as_a_policy_earns_its_validation_score() -> None:
    trainer = trainer_for("alg.gradient_steps=1")
    trainer.step()
    task = control(trainer)
    episodes = [int(seed) for seed in task.validation_episodes()]
    policy = control_policy(task, trainer.champion.actor)
    earned = play(task.env.environments(len(episodes)), policy, episodes).mean
    assert earned == pytest.approx(trainer.best_score, rel=1e-4)


SHORT = ("alg.gradient_steps=20", "alg.learning_starts=100")


@pytest.mark.parametrize(
    ("env", "overrides"),
    [
        ("gym", ("env.max_episode_steps=40",)),
        ("dflex_hopper", ("alg.population=4", "alg.elites=1", "alg.learners=1", "alg.windows=2")),
    ],
)
def test_a_resumed_run_goes_on_bit_for_bit(env: str, overrides: tuple[str, ...]) -> None:
    original = trainer_for(*SHORT, *overrides, env=env)
    original.step()
    original.step()
    assert original.learners is not None
    assert original.learners.updates > 0
    state, objects = original.state_dict(), MemoryObjects()
    manifest = original.replay.snapshot().write(objects.put, objects.has)
    replay = Replay.restore(manifest, objects.read)
    resumed = trainer_for(*SHORT, *overrides, env=env, replay=replay)
    resumed.load_state_dict(state)
    assert original.step() == resumed.step()
    assert original.lineage == resumed.lineage
    for name, value in original.actors.items():
        assert torch.equal(value, resumed.actors[name])


def test_a_rollout_does_not_depend_on_what_was_played_before() -> None:
    trainer = trainer_for(env="dflex_hopper")
    task = control(trainer)
    episodes = task.draw_episodes(3, np.random.default_rng(0))
    first = task.rollout(trainer.actors, episodes).returns
    evaluate_control(
        task.env, control_policy(task, {n: v[:1] for n, v in trainer.actors.items()}), seed=1, episodes=3
    )
    np.testing.assert_array_equal(task.rollout(trainer.actors, episodes).returns, first)


def test_random_agents_behave_differently_from_the_start() -> None:
    trainer = trainer_for("alg.population=16")
    state = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    action = trainer.task.squash(trainer.task.policy(trainer.actors, state))
    across_agents = action.std(dim=0).mean()
    assert across_agents > 0.5, "half the range of an action: their episodes tell evolution something"


@pytest.mark.parametrize("candidates", ["1", "null"])
def test_candidates_change_what_is_validated_but_not_what_is_learned(candidates: str) -> None:
    few = trainer_for("alg.gradient_steps=5", "env.max_episode_steps=20", "alg.learning_starts=50")
    other = trainer_for(
        "alg.gradient_steps=5",
        "env.max_episode_steps=20",
        "alg.learning_starts=50",
        f"alg.candidates={candidates}",
    )
    few.step()
    other.step()
    assert all(torch.equal(value, other.actors[name]) for name, value in few.actors.items())


def run(trainer: ERLTrainer, env_steps: int) -> list[dict[str, Any]]:
    history = []
    while trainer.env_steps < env_steps:
        history.append(trainer.step())
    return history


@pytest.mark.slow
def test_pendulum_is_solved_with_the_default_settings() -> None:
    trainer = trainer_for("env.id=Pendulum-v1")
    while not trainer.done:
        trainer.step()
    assert fresh_return(trainer) >= -200.0


@pytest.mark.slow
def test_swimmer_swims_better_than_gradient_alone() -> None:
    pytest.importorskip("mujoco")
    both = trainer_for("env.id=Swimmer-v5")
    run(both, 80_000)
    alone = trainer_for(
        "env.id=Swimmer-v5", "alg.variation=none", "alg.population=2", "alg.learners=2", "alg.elites=1"
    )
    run(alone, both.env_steps)
    assert alone.learners is not None
    assert both.learners is not None
    assert alone.learners.updates >= both.learners.updates
    assert fresh_return(both, episodes=5) > fresh_return(alone, episodes=5)


@pytest.mark.slow
def test_half_cheetah_improves() -> None:
    pytest.importorskip("mujoco")
    trainer = trainer_for("env.id=HalfCheetah-v5")
    trainer.step()
    first = trainer.best_score
    run(trainer, 120_000)
    assert trainer.best_score > max(first, 0.0)
    assert np.isfinite(fresh_return(trainer, episodes=5))
