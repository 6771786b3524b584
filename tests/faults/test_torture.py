"""Two hundred kills: over training and over saving, nothing committed is lost, corrupt or different."""

import random
from pathlib import Path

import pytest
from command_lab import ORDERS, PENDULUM, WEIGHTS, Lab
from torture import Toll, torture

KILLS = 210
KILLS_PER_RUN = 30
GENERATIONS = "alg.generations=12"


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_torture_by_two_hundred_kills_changes_no_bit(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream, toll = random.Random(20), Toll()
    kinds = [(*overrides, GENERATIONS) for overrides in (ORDERS, WEIGHTS, PENDULUM)]
    references = [lab.train(f"reference-{i}", overrides, tmp_path) for i, overrides in enumerate(kinds)]
    while toll.kills < KILLS:
        kind = toll.runs % len(kinds)
        torture(lab, tmp_path, kinds[kind], references[kind], KILLS_PER_RUN, stream, toll)
    with capsys.disabled():
        print(f"\ntorture: {toll.sentence()}")  # noqa: T201
    assert (toll.lost, toll.corrupt, toll.differing) == ([], [], [])
    assert toll.kills >= 200
    assert toll.while_saving >= 50
