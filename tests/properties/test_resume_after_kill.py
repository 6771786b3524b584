"""N generations with kill -9 at random moments and resume are N generations uninterrupted, bit for bit."""

import random
from pathlib import Path

import pytest
from command_lab import FLOW_WORLD_MODEL, ORDERS, PENDULUM, RANDOM_SEARCH, SB3, WEIGHTS, WORLD_MODEL, Lab
from torture import Toll, torture


@pytest.mark.parametrize(
    ("overrides", "kills"),
    [
        (ORDERS, 4),
        (WEIGHTS, 2),
        (PENDULUM, 2),
        (WORLD_MODEL, 2),
        (FLOW_WORLD_MODEL, 2),
        (RANDOM_SEARCH, 3),
        (SB3["sac"], 2),
        (SB3["td3"], 1),
        (SB3["ppo"], 2),
    ],
    ids=["orders", "weights", "pendulum", "world_model", "flow_world_model", "own", "sac", "td3", "ppo"],
)
def test_resume_after_kill_is_bit_identical(
    lab: Lab, tmp_path: Path, overrides: tuple[str, ...], kills: int
) -> None:
    reference = lab.train("reference", overrides, tmp_path)
    stream, toll = random.Random(kills), Toll()
    while toll.kills < kills:
        torture(lab, tmp_path, overrides, reference, kills - toll.kills, stream, toll)
    assert (toll.lost, toll.corrupt, toll.differing) == ([], [], [])
