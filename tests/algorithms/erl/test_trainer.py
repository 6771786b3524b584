"""What the trainer promises: the same seed is the same run, freezing is exact, nobody is lost."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from eigen2.algorithms.erl.executor import inline
from eigen2.envs.config import GymConfig
from eigen2.envs.control.catalogue import control_task
from eigen2.errors import ConfigError, DamagedStateError
from eigen2.nets.stacked import agents_in, take

OPERATORS = ["cem", "layer", "none"]
WORLDS: dict[str, dict[str, Any]] = {
    "weights": {"actions": "weights"},
    "orders": {"actions": "orders"},
    "gym": {},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "long history": {"encoder_layers": 2},
    "explore": {"explore_episodes": 1},
    "direct": {"direct_steps": 2, "direct_runs": 4, "direct_days": 8},
    "evolution alone": {"learners": 0},
    "gradient alone": {"learners": 6, "variation": "none"},
    "all learn": {"learners": 6},
    "all learn and compete": {"learners": 6, "variation": "tournament"},
    "few candidates": {"candidates": 3},
    "direct alone": {"gradient_steps": 0, "direct_steps": 2, "direct_runs": 4, "direct_days": 8},
}


@pytest.fixture
def build(alg, market_task, gym_task, trainer):
    """build(world, seed=, executor=, replay=, **alg) -> a fresh trainer."""

    def make(world, seed=5, replay=None, executor=None, **changes):
        config = alg(**changes)
        task = gym_task(config) if world == "gym" else market_task(config, **WORLDS[world])
        return trainer(task, seed, replay, executor)

    return make


def leaves(state, prefix=""):
    items = state.items() if isinstance(state, dict) else enumerate(state)
    for key, value in items:
        if isinstance(value, dict | list | tuple):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def assert_same_state(first, second):
    a, b = dict(leaves(first)), dict(leaves(second))
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(np.asarray(a[name]), np.asarray(b[name]), err_msg=name)


def copied(state):
    """A state as it comes back from disk: nothing shared with the trainer it was taken from."""
    if isinstance(state, dict):
        return {key: copied(value) for key, value in state.items()}
    if isinstance(state, list):
        return [copied(value) for value in state]
    return (
        state.clone()
        if isinstance(state, torch.Tensor)
        else np.copy(state)
        if isinstance(state, np.ndarray)
        else state
    )


@pytest.mark.parametrize("world", WORLDS)
def test_the_same_seed_gives_the_same_run_and_another_seed_another(build, world):
    first, second, other = (build(world, seed=seed) for seed in (5, 5, 6))
    metrics = [[one.step() for _ in range(3)] for one in (first, second, other)]
    assert metrics[0] == metrics[1] != metrics[2]
    assert_same_state(first.state_dict(), second.state_dict())
    same = [
        torch.equal(first.best_weights()[name], other.best_weights()[name]) for name in first.best_weights()
    ]
    assert not all(same)


def assert_thaws_at_every_generation(build, copy_of, world, changes, generations=2):
    original = build(world, **changes)
    frozen = []
    for _ in range(generations):
        frozen.append((copied(original.state_dict()), copy_of(original.replay)))
        original.step()
    expected_replay = len(original.replay)
    for generation, (state, replay) in enumerate(frozen):
        thawed = build(world, replay=replay, **changes)
        thawed.load_state_dict(state)
        assert thawed.generation == generation
        while thawed.generation < generations:
            thawed.step()
        assert_same_state(thawed.state_dict(), original.state_dict())
        assert thawed.lineage == original.lineage
        assert len(thawed.replay) == expected_replay


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("world", WORLDS)
def test_a_thawed_trainer_goes_on_bit_for_bit_from_every_generation(build, copy_of, world, operator):
    generations = 4 if operator == "cem" else 2
    assert_thaws_at_every_generation(build, copy_of, world, {"variation": operator}, generations)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_setting_thaws_bit_for_bit(build, copy_of, name):
    assert_thaws_at_every_generation(build, copy_of, "weights", VARIANTS[name])


def test_a_state_taken_does_not_change_when_training_goes_on(build):
    trainer = build("weights")
    trainer.step()
    state = trainer.state_dict()
    before = copied(state)
    trainer.step()
    assert_same_state(state, before)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("learners", [0, 2, 5, 6])
def test_the_population_never_changes_its_size(build, operator, learners):
    trainer = build("weights", variation=operator, learners=learners)
    for _ in range(2):
        trainer.step()
        assert agents_in(trainer.actors) == len(trainer.genealogy.ids) == len(trainer.genealogy.births) == 6
        assert len(trainer.take_records()["lineage"]) == 6


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_parent_in_the_lineage_is_an_agent_of_the_generation_before(build, operator):
    trainer = build("weights", variation=operator)
    before: set[int] = set()
    for generation in range(1, 4):
        trainer.step()
        records = trainer.take_records()["lineage"]
        assert [record["slot"] for record in records] == list(range(6))
        for record in records:
            assert record["generation"] == generation
            assert (record["operator"] == "born") == (generation == 1)
            assert bool(record["parents"]) == (generation > 1)
            assert set(record["parents"]) <= before
            assert math.isfinite(record["fitness"])
        before = {record["agent"] for record in records}


def test_an_elite_keeps_its_name_and_its_weights(build):
    trainer = build("weights", variation="layer", learners=0, windows=2)
    trainer.step()
    evaluated, names = take(trainer.actors, slice(None)), list(trainer.genealogy.ids)
    trainer.step()
    elites = [slot for slot, birth in enumerate(trainer.genealogy.births) if birth.operator == "elite"]
    assert len(elites) == 2
    for slot in elites:
        parent = trainer.genealogy.births[slot].parents[0]
        assert trainer.genealogy.ids[slot] == names[parent]
        assert all(torch.equal(trainer.actors[name][slot], evaluated[name][parent]) for name in evaluated)


@pytest.mark.parametrize("operator", ["layer", "cem"])
def test_the_champion_is_in_the_lineage_with_its_score(build, operator):
    trainer, records = build("weights", variation=operator), []
    for _ in range(4):
        trainer.step()
        records += trainer.take_records()["lineage"]
    champion = trainer.champion
    assert champion.score == trainer.best_score
    found = [r for r in records if r["agent"] == champion.agent and r["validation"] == champion.score]
    assert found
    assert (found[0]["operator"] == "cem.mean") == (operator == "cem")
    best = max(record["validation"] for record in records)
    assert trainer.stall.best == best
    assert operator == "cem" or best == champion.score
    assert trainer.done


def test_the_search_starts_from_the_best_of_independent_agents(build):
    trainer = build("weights", cem_std=1e-6)
    assert trainer.breeder.variation.distribution is None
    evaluated = take(trainer.actors, slice(None))
    trainer.step()
    fitness = [record["fitness"] for record in trainer.take_records()["lineage"]]
    assert len(set(fitness)) == 6
    best = int(np.argmax(fitness))
    bred = [slot for slot, birth in enumerate(trainer.genealogy.births) if birth.operator != "gradient"]
    assert len(bred) >= 5
    for slot in bred:
        for name, value in evaluated.items():
            torch.testing.assert_close(trainer.actors[name][slot], value[best], atol=1e-4, rtol=0)
    if best < trainer.config.learners:
        assert trainer.genealogy.births[best].operator == "gradient"


def test_learners_that_fall_behind_never_become_copies_of_each_other(build):
    trainer = build("weights", population=8, learners=3, elites=2, generations=6)
    for _ in range(6):
        trainer.step()
        learners = [take(trainer.actors, [slot]) for slot in range(3)]
        for one, other in ((0, 1), (0, 2), (1, 2)):
            assert any(not torch.equal(learners[one][name], learners[other][name]) for name in learners[0])


def test_the_champion_still_earns_its_score_on_the_same_windows(build):
    trainer = build("orders")
    for _ in range(3):
        trainer.step()
    replayed = trainer.task.rollout(trainer.champion.actor, trainer.task.validation_episodes())
    assert replayed.returns.mean() == pytest.approx(trainer.best_score, rel=1e-4, abs=1e-6)


def test_metrics_are_plain_finite_floats(build):
    for world in WORLDS:
        for value in build(world).step().values():
            assert type(value) is float
            assert math.isfinite(value)


@pytest.mark.parametrize(
    ("changes", "phases"),
    [
        ({}, ("evaluate", "train", "validate", "evolve")),
        ({"explore_episodes": 1}, ("evaluate", "explore", "train", "validate", "evolve")),
        ({"gradient_steps": 0, **VARIANTS["direct"]}, ("evaluate", "train", "validate", "evolve")),
        ({"learners": 0}, ("evaluate", "validate", "evolve")),
    ],
)
def test_progress_is_reported_for_every_declared_phase(build, changes, phases):
    trainer, seen = build("weights", **changes), []
    trainer._progress = lambda phase, done, total: seen.append((phase, done, total))
    trainer.step()
    assert tuple(dict.fromkeys(phase for phase, _, _ in seen)) == trainer.phases
    assert trainer.phases == phases
    assert all(0 <= done <= total for _, done, total in seen)
    for phase in phases:
        assert [(done, total) for name, done, total in seen if name == phase][-1][0] > 0


def test_no_global_generator_is_read(build):
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002
    build("orders", explore_episodes=1).step()
    assert torch.equal(torch.get_rng_state(), torch_state)
    np.testing.assert_array_equal(np.random.get_state(legacy=False)["state"]["key"], numpy_state)  # noqa: NPY002


def test_learning_waits_for_enough_transitions(build):
    trainer = build("weights", learning_starts=200)
    steps = [trainer.step() for _ in range(2)]
    assert "critic_loss" not in steps[0]
    assert "critic_loss" in steps[1]


def test_a_learner_that_was_not_trained_stays_itself(build):
    trainer = build("weights", learning_starts=10_000, variation="layer")
    before, ids = take(trainer.actors, slice(None)), list(trainer.genealogy.ids)
    trainer.step()
    skipped = [slot for slot, birth in enumerate(trainer.genealogy.births) if birth.operator == "skipped"]
    assert skipped
    assert [trainer.genealogy.ids[slot] for slot in skipped] == [ids[slot] for slot in skipped]
    for name, value in before.items():
        assert torch.equal(trainer.actors[name][skipped], value[skipped])


def test_without_updates_of_critics_there_are_none(build):
    trainer = build("weights", **VARIANTS["direct alone"], learning_starts=0)
    metrics = trainer.step()
    assert "direct_loss" in metrics
    assert not {"critic_loss", "actor_loss"} & metrics.keys()
    assert trainer.owners()["learner_critics"] == 0
    assert trainer.state_dict()["learners"]["critic"] == {}


def test_where_all_learn_the_fittest_are_validated(build):
    trainer = build("gym", learners=6, variation="tournament", candidates=3)
    trainer.step()
    records = trainer.take_records()["lineage"]
    validated = {record["slot"] for record in records if record["validation"] is not None}
    fittest = sorted(records, key=lambda record: -record["fitness"])[:3]
    assert validated == {record["slot"] for record in fittest} != {0, 1, 2}


@pytest.mark.parametrize("variation", ["cem", "layer", "none"])
def test_no_updates_at_all_are_no_training(build, variation):
    trainer = build("weights", gradient_steps=0, learning_starts=0, variation=variation)
    trainer.step()
    assert "gradient" not in {birth.operator for birth in trainer.genealogy.births}


def test_a_weight_that_is_not_finite_stops_naming_agent_tensor_and_generation(build):
    trainer = build("weights")
    trainer.step()
    trainer.actors["head.own.w"][3, 0, 0] = float("nan")
    with pytest.raises(DamagedStateError, match="head.own.w of agent 3 is not finite .* generation 1"):
        trainer.step()


def test_a_fitness_that_is_not_finite_stops_naming_agent_and_generation(build):
    trainer = build("gym")
    trainer.step()
    honest = inline(trainer.task)

    def spoilt(rollouts):
        for index, result in enumerate(honest(rollouts)):
            if index == 1:
                result.returns[2] = float("nan")
            yield result

    trainer._execute = spoilt
    with pytest.raises(DamagedStateError, match="fitness of agent 5 in generation 1 is nan"):
        trainer.step()


def test_discrete_actions_are_refused_with_a_sentence():
    with pytest.raises(ConfigError, match="CartPole-v1.*Discrete.*continuous"):
        control_task(GymConfig(id="CartPole-v1"))


def test_an_encoder_that_looks_beyond_the_window_is_refused(alg, market_task):
    with pytest.raises(
        ConfigError, match="encoder_layers=5 looks back 32 days, more than env.window=16; use at most 4"
    ):
        market_task(alg(encoder_layers=5))


def test_an_episode_that_does_not_fit_its_split_is_refused(alg, market_task):
    with pytest.raises(ConfigError, match="does not fit into the 20 validation days"):
        market_task(alg(), trading_days=60)


def test_where_all_agents_learn_children_replace_all_but_the_elites(build):
    trainer = build("weights", learners=6, variation="tournament", elites=2)
    learners = trainer.learners
    trainer.step()
    critics = take(learners.critic, slice(None))
    bred = {
        slot: birth for slot, birth in enumerate(trainer.genealogy.births) if birth.operator != "gradient"
    }
    assert len(bred) == 4
    fitness = [record["fitness"] for record in trainer.take_records()["lineage"]]
    assert set(range(6)) - set(bred) == set(np.argsort(fitness)[-2:])
    for slot, birth in bred.items():
        fitter = max(birth.parents, key=lambda parent: fitness[parent])
        for name, value in learners.actor.items():
            assert torch.equal(value[slot], trainer.actors[name][slot])
            assert torch.equal(value[slot], learners.actor_target[name][slot])
        if fitter not in bred:
            for value in critics.values():
                assert torch.equal(value[slot], value[fitter])
                assert torch.equal(value[6 + slot], value[6 + fitter])
    assert trainer.champion.score > float("-inf")


def test_a_tournament_without_all_agents_learning_is_refused(alg):
    with pytest.raises(ValueError, match="learners must be 6"):
        alg(variation="tournament", learners=5)
