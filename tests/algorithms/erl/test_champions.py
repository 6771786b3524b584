"""The champion is no lucky one; it survives freezing."""

import numpy as np
import pytest
import torch

from eigen2.algorithms.erl.champions import Champion, clearly_better
from eigen2.errors import ConfigError


def actors(*values):
    """One weight per agent, so that an agent can be recognised."""
    return {"w": torch.tensor(values).view(-1, 1)}


def test_without_a_search_distribution_the_champion_must_be_beaten():
    champion = Champion()
    champion.consider_agent(actors(1.0), np.array([0.1, 0.3]), 0, 7)
    champion.consider_agent(actors(2.0), np.array([0.3, 0.1]), 1, 8)
    assert (champion.actor["w"].item(), champion.agent, champion.generation) == (1.0, 7, 0)
    champion.consider_agent(actors(3.0), np.array([0.3, 0.2]), 2, 9)
    assert (champion.actor["w"].item(), champion.agent, champion.score) == (3.0, 9, 0.25)


def test_the_first_mean_is_promoted_over_a_lucky_agent():
    champion = Champion()
    champion.consider_agent(actors(1.0), np.array([0.9, 0.9, 0.9]), 0, 1)
    champion.consider_mean(actors(2.0), np.array([0.2, 0.3, 0.1]), 1, 2)
    assert champion.actor["w"].item() == 2.0


def test_a_mean_is_promoted_unless_an_earlier_one_was_clearly_better():
    champion = Champion()
    champion.consider_mean(actors(1.0), np.array([0.30, 0.20, 0.40]), 0, 1)
    champion.consider_mean(actors(2.0), np.array([0.35, 0.10, 0.42]), 1, 2)
    assert champion.actor["w"].item() == 2.0
    champion.consider_mean(actors(3.0), np.array([0.20, 0.10, 0.30]), 2, 3)
    assert champion.actor["w"].item() == 2.0


def test_many_small_steps_down_do_not_add_up():
    champion, start = Champion(), np.array([0.30, 0.20, 0.40, 0.25])
    wobble = np.array([0.01, -0.01, 0.01, -0.01])
    for step in range(50):
        champion.consider_mean(actors(float(step)), start - 0.004 * step + wobble * (step % 2), step, step)
    assert champion.score > start.mean() - 0.01


def test_being_clearly_better_is_more_than_one_standard_error_of_the_pairs():
    assert clearly_better(np.array([0.2, 0.3, 0.4]), np.array([0.1, 0.2, 0.3]))
    assert not clearly_better(np.array([0.9, 0.0, 0.1]), np.array([0.1, 0.2, 0.3]))
    assert clearly_better(np.array([0.2]), np.array([0.1]))
    assert not clearly_better(np.array([0.1]), np.array([0.1]))


def test_a_thawed_champion_is_the_same():
    champion, thawed = Champion(), Champion()
    thawed.load_state_dict(champion.state_dict())
    assert thawed.score == -np.inf
    with pytest.raises(ConfigError, match="no champion before its first generation ends"):
        _ = thawed.actor
    champion.consider_mean(actors(1.0), np.array([0.30, 0.20]), 3, 5)
    champion.consider_mean(actors(2.0), np.array([0.29, 0.20]), 4, 6)
    thawed.load_state_dict(champion.state_dict())
    assert (thawed.score, thawed.generation, thawed.agent) == (champion.score, 4, 6)
    assert torch.equal(thawed.actor["w"], champion.actor["w"])
    for either in (champion, thawed):
        either.consider_mean(actors(3.0), np.array([0.2, 0.1]), 5, 7)
    assert thawed.agent == champion.agent == 6
