"""Growth goes to the phase in which it happened, and looking costs what it may."""

import gc
from typing import Any

import numpy as np
import pytest

from eigen2.memory.budget import Budget
from eigen2.memory.profiler import Profiler

SIZE = 40_000_000
"""So large that it is mapped anew and given back at once. Tests that read it back from RSS need a process of their own: in
the whole suite other tests' memory comes and goes meanwhile, so they are marked slow."""


class Work:
    """A step of two phases; what it keeps can be declared."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def owners(self) -> dict[str, int]:
        return {"kept": sum(array.nbytes for array in self.kept)}


@pytest.fixture(autouse=True)
def nothing_left_of_other_tests() -> None:
    """What is freed while a test measures would hide what it makes."""
    gc.collect()


def grown(record: dict[str, Any]) -> dict[str, int]:
    """In units of SIZE, rounded."""
    return {name: round(reading["growth_bytes"] / SIZE) for name, reading in record["phases"].items()}


@pytest.mark.slow
def test_a_phase_that_is_announced_gets_all_that_happens_in_it() -> None:
    work = Work()
    profiler = Profiler(dict)
    profiler.phase("play", 0, 2)
    work.kept.append(np.ones(SIZE, np.uint8))
    profiler.phase("play", 2, 2)
    work.kept.append(np.ones(SIZE, np.uint8))
    profiler.phase("learn", 0, 1)
    work.kept.append(np.ones(2 * SIZE, np.uint8))
    profiler.phase("learn", 1, 1)
    assert grown(profiler.record(1)) == {"play": 2, "learn": 2}
    work.kept.append(np.ones(SIZE, np.uint8))
    profiler.closed("checkpoint")
    assert grown(profiler.record(2)) == {"checkpoint": 1, "step": 0}
    profiler.close()


@pytest.mark.slow
def test_a_phase_that_reports_only_what_is_done_ends_when_it_is_complete() -> None:
    kept = []
    profiler = Profiler(dict)
    kept.append(np.ones(SIZE, np.uint8))
    profiler.phase("play", 1, 1)
    kept.append(np.ones(SIZE, np.uint8))
    profiler.phase("learn", 1, 2)
    kept.append(np.ones(SIZE, np.uint8))
    profiler.phase("learn", 2, 2)
    assert grown(profiler.record(1)) == {"play": 1, "learn": 2}
    profiler.close()


@pytest.mark.slow
def test_what_a_filling_owner_declares_is_no_growth() -> None:
    work = Work()
    profiler = Profiler(work.owners, ("kept",))
    profiler.phase("play", 0, 1)
    work.kept.append(np.ones(SIZE, np.uint8))
    record = profiler.record(1)
    assert record["owners"] == {"kept": SIZE}
    assert grown(record) == {"play": 0}
    assert record["filling"] == ["kept"]
    assert {"rss_bytes", "uss_bytes", "limit_bytes", "used_bytes"} <= record["baseline"].keys()
    profiler.close()


def test_everything_is_there_when_it_is_asked_for() -> None:
    kept = [np.ones(7_000_000)]
    profiler = Profiler(dict)
    record = profiler.record(1, everything=True)
    assert record["details"]["uss_bytes"] > 0
    assert any(big["bytes"] == 56_000_000 for big in record["census"]["big"])
    assert record["census"]["types"]["dict"] > 1000
    assert "census" not in profiler.record(2)
    assert gc.isenabled()
    assert len(kept) == 1
    profiler.close()


def test_a_budget_allows_its_share_and_no_more() -> None:
    now = spent = 0.0
    budget = Budget(0.01, guess=0.5, clock=lambda: now, cost=lambda: spent)
    looks = []
    for now in map(float, range(1, 1001)):
        if budget.allows:
            with budget.paying():
                spent += 2.0
            looks.append(now)
    assert looks == [50.0, 400.0, 600.0, 800.0, 1000.0]
    assert budget.spent <= 0.01 * now
