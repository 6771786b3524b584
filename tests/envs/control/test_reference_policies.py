"""Scores of doing nothing and doing anything; the ranges are wide because only their order of size is a promise."""

import pytest

from eigen2.envs.control.catalogue import make_task
from eigen2.envs.control.reference_policies import at_random, stand_still
from eigen2.envs.control.rollout import play_episodes

STILL = {
    "pendulum": (-1400, -700),
    "dflex_cartpole": (-2400, -1600),
    "dflex_hopper": (-150, 80),
    "dflex_cheetah": (-20, 20),
    "dflex_ant": (1000, 1400),
    "dflex_humanoid": (40, 100),
}
RANDOM = {
    "pendulum": (-1500, -900),
    "dflex_cartpole": (-2500, -1500),
    "dflex_hopper": (-200, 0),
    "dflex_cheetah": (-700, -200),
    "dflex_ant": (300, 1150),
    "dflex_humanoid": (10, 80),
}


@pytest.mark.parametrize("name", STILL)
def test_standing_still_earns_what_the_catalogue_expects(name: str) -> None:
    task = make_task(name)
    low, high = STILL[name]
    assert low < play_episodes(task, stand_still(task), 8, seed=0).mean < high


@pytest.mark.parametrize("name", RANDOM)
def test_random_actions_earn_what_the_catalogue_expects(name: str) -> None:
    task = make_task(name)
    low, high = RANDOM[name]
    assert low < play_episodes(task, at_random(task, seed=0), 8, seed=0).mean < high
