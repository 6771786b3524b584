"""Selection and variation: pure, deterministic in their streams, and by the formulas they state."""

import math

import numpy as np
import pytest
import torch

from eigen2.algorithms.erl import evolution
from eigen2.algorithms.erl.evolution import SearchDistribution, Stall
from eigen2.algorithms.erl.variation import Variation, elites
from eigen2.nets.stacked import agents_in, flatten, take, unflatten

OPERATORS = ["cem", "layer"]


def population(agents=6, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return {
        "a.w": torch.randn(agents, 20, 10, generator=rng),
        "a.b": torch.zeros(agents, 1, 10),
        "b.w": 3.0 * torch.randn(agents, 10, 30, generator=rng),
    }


def stream(seed=1):
    return torch.Generator().manual_seed(seed)


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


FITNESS = np.array([0.1, 0.9, -0.3, 0.9, 0.5, 0.2])


def test_the_ranking_is_best_first_and_ties_keep_their_order():
    assert evolution.ranking(FITNESS) == [1, 3, 4, 5, 0, 2]


def test_a_tournament_is_won_by_the_fittest_drawn():
    rng = np.random.default_rng(0)
    assert evolution.tournament(FITNESS, 6, rng) in (1, 3)
    assert evolution.tournament(FITNESS, 99, rng) in (1, 3), (
        "a tournament larger than the population takes all"
    )
    winners = [evolution.tournament(FITNESS, 2, rng) for _ in range(300)]
    assert 2 not in winners, "the worst never wins against another"
    assert set(winners) == {0, 1, 3, 4, 5}
    alone = [evolution.tournament(FITNESS, 1, rng) for _ in range(200)]
    assert set(alone) == set(range(6)), "a tournament of one is a fair draw"


def test_a_blend_is_the_weighted_mean():
    first, second = population(1, 1), population(1, 2)
    child = evolution.blend(first, second, 0.3)
    for name in child:
        torch.testing.assert_close(child[name], 0.3 * first[name] + 0.7 * second[name])


def test_layer_mutation_scales_with_each_layer_and_moves_fresh_biases():
    parent = {"w": torch.full((1, 200, 200), 4.0), "b": torch.zeros(1, 1, 40_000)}
    child = evolution.mutate_layers(parent, 0.05, stream())
    assert float((child["w"] - 4.0).std()) == pytest.approx(0.2, rel=0.03)
    assert float(child["b"].std()) == pytest.approx(0.005, rel=0.03)


def test_the_search_distribution_moves_to_the_log_weighted_mean_of_the_best():
    actors = population()
    flat = flatten(actors)
    old = SearchDistribution(flat[0], torch.ones(flat.shape[1]))
    floor = torch.full_like(old.mean, 0.01)
    fitted = evolution.fit_distribution(old, actors, FITNESS, 3, floor)
    weights = np.array([math.log(4) - math.log(rank) for rank in (1, 2, 3)])
    weights /= weights.sum()
    best = flat[[1, 3, 4]].double().numpy()
    mean = (weights[:, None] * best).sum(0)
    variance = (weights[:, None] * (best - flat[0].double().numpy()) ** 2).sum(0) + 0.01
    np.testing.assert_allclose(fitted.mean, mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fitted.variance, variance, rtol=1e-4, atol=1e-5)


def test_agents_drawn_from_a_distribution_have_its_mean_and_deviation():
    like = {"w": torch.zeros(1, 2, 2)}
    given = SearchDistribution(torch.tensor([1.0, -2.0, 0.0, 5.0]), torch.tensor([0.01, 1.0, 4.0, 0.0]))
    drawn = flatten(evolution.sample_distribution(given, 20_000, like, stream()))
    torch.testing.assert_close(drawn.mean(0), given.mean, rtol=0, atol=0.05)
    torch.testing.assert_close(drawn.std(0), given.variance.sqrt(), rtol=0.03, atol=1e-6)


def started(config, actors, seed):
    """A variation whose search distribution, if it has one, starts from the first agent."""
    variation = Variation(config, actors, seed)
    variation.init_distribution(take(actors, [0]), 1, 0)
    return variation


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_offspring_have_the_number_asked_and_depend_on_seed_and_generation_alone(alg, operator, count):
    config, actors = alg(variation=operator), population()
    before = take(actors, slice(None))

    def breed(seed, generation):
        return started(config, actors, seed).offspring(actors, FITNESS, count, 1.0, generation)

    children, births = breed(7, 2)
    assert agents_in(children) == len(births) == count
    assert all(0 <= parent < 6 for birth in births for parent in birth.parents)
    assert all(birth.parents for birth in births)
    assert same(breed(7, 2)[0], children)
    assert same(actors, before), "variation is pure: the parents stay as they were"
    if count > 1:
        assert not same(breed(8, 2)[0], children)
        assert not same(breed(7, 3)[0], children)


def test_a_stalled_run_mutates_further(alg):
    config, actors = alg(variation="layer"), population()

    def mutants(boost):
        children, births = Variation(config, actors, 7).offspring(actors, FITNESS, 2, boost, 0)
        assert births[1].operator == "mutation.layer"
        return flatten(children)[1] - flatten(take(actors, births[1].parents))[0]

    torch.testing.assert_close(mutants(3.0), 3.0 * mutants(1.0), rtol=1e-3, atol=1e-4)


def test_mutants_descend_from_elites(alg):
    config, actors = alg(variation="layer", elites=2), population()
    _, births = Variation(config, actors, 7).offspring(actors, FITNESS, 40, 1.0, 0)
    mutants = [birth for birth in births if birth.operator.startswith("mutation")]
    assert len(mutants) == 20
    assert {birth.parents[0] for birth in mutants} == {1, 3}


def test_the_first_cem_child_is_the_average_of_all_means_later_ones_weighing_more(alg):
    variation = started(alg(variation="cem"), population(), 7)
    means = [flatten(population())[0]]
    for generation in range(4):
        children, births = variation.offspring(population(), FITNESS, 3, 1.0, generation)
        means.append(variation.distribution.mean)
        weights = torch.arange(1.0, len(means) + 1)
        averaged = (weights[:, None] * torch.stack(means)).sum(0) / weights.sum()
        assert [birth.operator for birth in births] == ["cem.mean", "cem.sample", "cem.sample"]
        assert births[0].parents == (1, 3, 4)
        torch.testing.assert_close(flatten(children)[0], averaged)


def test_the_search_distribution_starts_around_one_agent(alg):
    config, actors = alg(variation="cem", cem_std=0.1), population()
    variation = Variation(config, actors, 7)
    drawn = variation.init_distribution(take(actors, [3]), 500, 0)
    assert variation.distribution is not None
    assert torch.equal(variation.distribution.mean, flatten(actors)[3])
    assert agents_in(drawn) == 500
    away = (flatten(drawn) - flatten(actors)[3]) / variation.scale
    torch.testing.assert_close(away.std(), torch.tensor(0.1), rtol=0.05, atol=0)


def test_a_thawed_variation_breeds_the_same(alg):
    config, actors = alg(variation="cem"), population()
    original = started(config, actors, 7)
    original.offspring(actors, FITNESS, 3, 1.0, 0)
    thawed = Variation(config, population(seed=99), 7)
    thawed.load_state_dict(original.state_dict())
    expected, _ = original.offspring(actors, FITNESS, 3, 1.0, 1)
    assert same(thawed.offspring(actors, FITNESS, 3, 1.0, 1)[0], expected)


def test_elites_are_the_best_unchanged():
    actors = population()
    best, births = elites(actors, FITNESS, 3)
    assert same(best, take(actors, [1, 3, 4]))
    assert [birth.parents for birth in births] == [(1,), (3,), (4,)]


def test_unflatten_keeps_names_in_order():
    actors = population()
    assert list(unflatten(flatten(actors), actors)) == list(actors)


def test_mutation_grows_while_validation_stalls_and_falls_back_on_success():
    stall = Stall()
    stall = stall.update(1.0, patience=2, growth=1.5)
    assert stall == Stall(1.0, 0, 1.0)
    factors = []
    for _ in range(9):
        stall = stall.update(1.0, patience=2, growth=1.5)
        factors.append(stall.factor)
    assert factors == [1.0, 1.5, 1.5, 2.25, 2.25, 3.375, 3.375, 4.0, 4.0]
    assert stall.update(1.1, patience=2, growth=1.5) == Stall(1.1, 0, 1.0)
