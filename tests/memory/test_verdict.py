"""The sentence follows from the records alone: what fills, what settles and what is noise is no leak."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigen2.memory.growth import judge, part
from eigen2.memory.pictures import account
from eigen2.memory.slopes import slope
from eigen2.memory.verdict import assess, sessions

UPGRADE = Path(__file__).parents[1] / "upgrade"
RUNS = sorted(UPGRADE.glob("format*/*/memory.jsonl"))


def noise(seed: int, count: int, size: float) -> Any:
    return np.random.Generator(np.random.PCG64(seed)).normal(0, size, count)


def records(levels: Any, session: str = "a", first: int = 1, **owners: Any) -> list[dict[str, Any]]:
    """One record per level; owners are sequences of bytes."""
    found = []
    for index, level in enumerate(levels):
        held = {name: int(values[index]) for name, values in owners.items()}
        rss = int(level) + sum(held.values())
        found.append(
            {
                "step": first + index, "time": 100.0 + index, "seconds": 1.0, "session": session,
                "rss_bytes": rss, "own_bytes": rss, "owners": held,
                "phases": {"train": {"growth_bytes": int(level - levels[max(index - 1, 0)])}},
            }
        )  # fmt: skip
    found[0]["filling"] = ["replay"]
    return found


def test_the_slope_of_a_line_with_outliers_is_the_line_s() -> None:
    x = np.arange(60.0)
    y = 1000 * x + noise(1, 60, 300)
    y[::7] += 1e6
    found = slope([(x, y)])
    assert found is not None
    assert found.low < 1000 < found.high
    assert found.high - found.low < 200


@pytest.mark.parametrize("seed", range(10))
def test_noise_and_warm_up_are_no_leak(seed: int) -> None:
    steps = np.arange(40)
    levels = 4e8 + 3e7 * (1 - np.exp(-steps / 4)) + noise(seed, 40, 5e5)
    found = assess(records(levels))
    assert found.leak is False
    assert found.sentence.startswith("no leak: ")


def test_a_steady_climb_is_a_leak_and_its_phase_is_named() -> None:
    found = assess(records(4e8 + 15e6 * np.arange(30) + noise(3, 30, 1e6)))
    assert found.leak is True
    assert found.growth is not None
    assert found.growth.slope.value == pytest.approx(15e6, rel=0.02)
    assert found.sentence.startswith("train phase grows ")


def test_a_slow_climb_shows_in_a_long_run() -> None:
    levels = 4e8 + 12e3 * np.arange(5000) + noise(4, 5000, 2e5)
    assert assess(records(levels)).leak is True
    assert assess(records(levels[:200])).leak is False


def test_a_replay_that_fills_is_explained_and_the_leak_beside_it_is_not() -> None:
    filling = np.minimum(np.arange(60) * 4e6, 1.2e8)
    flat = 4e8 + noise(5, 60, 2e5)
    assert assess(records(flat, replay=filling)).leak is False
    assert assess(records(flat + 3e6 * np.arange(60), replay=filling)).leak is True


def test_an_owner_that_should_not_grow_is_named() -> None:
    found = assess(records(4e8 + noise(6, 30, 1e5), cache=5e6 * np.arange(30)))
    assert found.leak is True
    assert "owner cache" in found.sentence


def test_a_level_that_another_process_begins_with_is_no_growth() -> None:
    parts = [
        records(level + noise(i, 15, 1e5), session=str(i), first=1 + 15 * i)
        for i, level in enumerate((4e8, 6e8, 9e8))
    ]
    whole = [record for one in parts for record in one]
    assert len(sessions(whole)) == 3
    assert assess(whole).leak is False


def test_records_without_a_session_are_told_apart_by_the_pause() -> None:
    old = [
        {
            "step": i,
            "time": 10.0 * i + (60 if i > 15 else 0),
            "seconds": 10.0,
            "rss_bytes": 4e8 + 2e8 * (i > 15),
        }
        for i in range(1, 31)
    ]
    assert [len(one) for one in sessions(old)] == [15, 15]
    assert assess(old).leak is False


@pytest.mark.parametrize("path", RUNS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_records_of_every_format_are_read(path: Path) -> None:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    verdict = assess(found)
    assert verdict.sentence == "not enough steps yet: 2 in one process, 11 are needed"
    assert verdict.to_json()["owners"]["replay"] > 0
    assert account(found)[-1] == verdict.sentence


def test_an_empty_log_is_not_enough() -> None:
    assert assess([]).to_json()["leak"] is None
    assert judge([part([], [])], [part([], [])]) is None
