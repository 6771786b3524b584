"""Two hundred kills: over training and over saving, nothing committed is lost, corrupt or different."""

import random
from pathlib import Path

import pytest
from command_lab import FLOW_WORLD_MODEL, ORDERS, PENDULUM, WEIGHTS, WORLD_MODEL, Lab
from torture import Toll, torture

KILLS = 210
KILLS_PER_RUN = 30
GENERATIONS, ITERATIONS = "alg.generations=12", "alg.iterations=12"


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_torture_by_two_hundred_kills_changes_no_bit(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = [(*overrides, GENERATIONS) for overrides in (ORDERS, WEIGHTS, PENDULUM)]
    _torture(lab, tmp_path, kinds, KILLS, capsys)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_torture_of_world_models_changes_no_bit(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """mlp dynamics, and flow dynamics with Heun and four substeps."""
    kinds = [(*overrides, ITERATIONS) for overrides in (WORLD_MODEL, FLOW_WORLD_MODEL)]
    _torture(lab, tmp_path, kinds, KILLS, capsys)


def _torture(
    lab: Lab, tmp_path: Path, kinds: list[tuple[str, ...]], kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    stream, toll = random.Random(20), Toll()
    references = [lab.train(f"reference-{i}", overrides, tmp_path) for i, overrides in enumerate(kinds)]
    while toll.kills < kills:
        kind = toll.runs % len(kinds)
        torture(lab, tmp_path, kinds[kind], references[kind], KILLS_PER_RUN, stream, toll)
    with capsys.disabled():
        print(f"\ntorture: {toll.sentence()}")  # noqa: T201
    assert (toll.lost, toll.corrupt, toll.differing) == ([], [], [])
    assert toll.kills >= 200
    assert toll.while_saving >= 50
