"""Two hundred kills: over training and over saving, nothing committed is lost, corrupt or different."""

import random
from pathlib import Path

import pytest
from command_lab import FLOW_WORLD_MODEL, ORDERS, PENDULUM, RANDOM_SEARCH, SB3, WEIGHTS, WORLD_MODEL, Lab
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


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("overrides", [RANDOM_SEARCH, *SB3.values()], ids=["own", *SB3])
def test_torture_of_a_plug_in_by_twenty_kills_changes_no_bit(
    lab: Lab, tmp_path: Path, overrides: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Algorithms that nobody here wrote for this harness: the example, and Stable-Baselines3."""
    longer = {"alg.env_steps=150": "alg.env_steps=500", "alg.tries=8": "alg.tries=300"}
    kind = tuple(longer.get(part, part) for part in overrides)
    reference = lab.train("reference", kind, tmp_path)
    stream, toll = random.Random(20), Toll()
    while toll.kills < 20:
        torture(lab, tmp_path, kind, reference, 20 - toll.kills, stream, toll)
    with capsys.disabled():
        print(f"\n{overrides[0]}: {toll.sentence()}")  # noqa: T201
    assert (toll.lost, toll.corrupt, toll.differing) == ([], [], [])


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
