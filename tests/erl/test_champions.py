"""The hall of fame keeps the best ever, each once, and survives freezing."""

import numpy as np
import torch

from eigen2.erl.champions import HallOfFame
from eigen2.nets.stacked import agents_in


def actors(*values):
    """One weight per agent, so that an agent can be recognised."""
    return {"w": torch.tensor(values).view(-1, 1)}


def entries(hall):
    return [(honour.score, honour.agent) for honour in hall.honours]


def test_the_best_enter_best_first_with_their_weights():
    hall = HallOfFame(2)
    assert hall.consider(actors(10.0, 20.0, 30.0), np.array([0.1, 0.3, 0.2]), 0, [0, 1, 2])
    assert entries(hall) == [(0.3, 1), (0.2, 2)]
    assert hall.actors["w"].flatten().tolist() == [20.0, 30.0]
    assert hall.champion["w"].item() == 20.0
    assert agents_in(hall.champion) == 1


def test_only_a_strictly_better_agent_becomes_champion():
    hall = HallOfFame(2)
    hall.consider(actors(1.0), np.array([0.5]), 0, [0])
    assert not hall.consider(actors(2.0), np.array([0.5]), 1, [10])
    assert hall.champion["w"].item() == 1.0
    assert hall.consider(actors(3.0), np.array([0.6]), 2, [20])
    assert hall.champion["w"].item() == 3.0
    assert hall.best == 0.6


def test_a_worse_agent_never_pushes_out_a_better_one():
    hall = HallOfFame(2)
    hall.consider(actors(1.0, 2.0), np.array([0.5, 0.4]), 0, [0, 1])
    assert not hall.consider(actors(3.0, 4.0), np.array([0.1, 0.45]), 1, [2, 3])
    assert entries(hall) == [(0.5, 0), (0.45, 3)]


def test_an_elite_that_is_validated_again_takes_no_second_place():
    hall = HallOfFame(3)
    hall.consider(actors(1.0, 2.0), np.array([0.5, 0.4]), 0, [0, 1])
    hall.consider(actors(1.0, 7.0), np.array([0.5, 0.3]), 1, [12, 13])
    assert hall.actors["w"].flatten().tolist() == [1.0, 2.0, 7.0]


def test_later_changes_of_the_population_do_not_reach_the_hall():
    hall, population = HallOfFame(1), actors(1.0)
    hall.consider(population, np.array([0.5]), 0, [0])
    population["w"].zero_()
    hall.champion["w"].zero_()
    assert hall.champion["w"].item() == 1.0


def test_a_thawed_hall_is_the_same():
    hall = HallOfFame(2)
    hall.consider(actors(1.0, 2.0), np.array([0.5, 0.4]), 0, [0, 1])
    thawed = HallOfFame(2)
    thawed.load_state_dict(hall.state_dict())
    assert entries(thawed) == entries(hall)
    assert torch.equal(thawed.actors["w"], hall.actors["w"])
    empty = HallOfFame(2)
    empty.load_state_dict(HallOfFame(2).state_dict())
    assert empty.actors is None
    assert empty.best == -np.inf
