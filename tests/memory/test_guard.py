"""Before memory is used up caches are dropped; when it is nearly full the run stops by itself and can be resumed."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import eigen2
from eigen2.harness.journal import read_log
from eigen2.memory import guard
from eigen2.memory.guard import Guard, Use
from eigen2.memory.limits import Limit

SCRIPT = Path(__file__).with_name("leaky.py")
GB = 1_000_000_000
CGROUP = Limit(10 * GB, "cgroup /job", Path("/nowhere"))


def train(kind: str, root: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(eigen2.__file__).parents[1])
    return subprocess.run(
        [sys.executable, str(SCRIPT), kind, str(root), *more],
        env=os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1", "LEAKY_SHOW": "1"} | environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def events(root: Path, kind: str) -> list[dict[str, Any]]:
    return [record for record in read_log(root / "leaky" / "events.jsonl") if record["kind"] == kind]


def heard(*shares: float) -> list[tuple[str, float]]:
    """What a guard calls when it finds these shares of 10 GB."""
    said: list[tuple[str, float]] = []
    left = list(shares)

    def measure() -> list[Use]:
        own = round(left.pop(0) * 10 * GB)
        return [Use(own, 10 * GB - own, CGROUP), Use(1, 99 * GB, CGROUP)]

    watching = Guard(
        lambda use: said.append(("short", use.share)), lambda use: said.append(("full", use.share)), measure
    )
    while left:
        watching.look()
    return said


def test_at_90_per_cent_memory_is_short_and_at_95_full() -> None:
    assert heard(0.5, 0.89, 0.91, 0.949, 0.96) == [("short", 0.91), ("short", 0.949), ("full", 0.96)]


def test_caches_are_dropped_again_only_when_it_gets_worse() -> None:
    assert heard(0.91, 0.91, 0.915, 0.6, 0.91, 0.93) == [("short", 0.91), ("short", 0.93)]


def test_looks_are_nearer_the_less_is_left() -> None:
    def pause(own: int, limit: int) -> float:
        found = [Use(own, limit - own, CGROUP)]
        return Guard(lambda use: None, lambda use: None, lambda: found).look()

    assert pause(1 * GB, 64 * GB) == guard.LATEST
    assert pause(round(0.94 * 1.5 * GB), round(1.5 * GB)) == guard.SOONEST
    assert guard.SOONEST < pause(1 * GB, round(1.5 * GB)) < 0.1


def test_what_others_use_is_not_held_against_a_small_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "in_use", lambda limit: round(9.7 * GB))
    monkeypatch.setattr(guard, "own_bytes", lambda: GB // 10)
    assert guard.use(CGROUP).share == pytest.approx(0.25)
    monkeypatch.setattr(guard, "own_bytes", lambda: 8 * GB)
    found = guard.use(CGROUP)
    assert found.share > 0.96
    assert found.words() == "96 % of 10 GB (cgroup /job, of which others leave 8.3 GB) in use"


def test_addresses_count_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "in_use", lambda limit: round(9.7 * GB))
    assert guard.use(Limit(10 * GB, "ulimit -v")).share == pytest.approx(0.97)


def test_a_copy_must_fit() -> None:
    found = [Use(9 * GB, 1 * GB, CGROUP)]
    watching = Guard(lambda use: None, lambda use: None, lambda: found)
    assert watching.has_room(GB // 2)
    assert not watching.has_room(GB)


def test_a_cgroup_that_is_gone_is_looked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [[CGROUP], [Limit(10**18, "machine")]]
    monkeypatch.setattr(guard, "limits", lambda: answers.pop(0))
    (found,) = guard._Limits()()
    assert found.limit.source == "machine"


@pytest.mark.slow
def test_a_run_that_grows_from_step_to_step_stops_and_goes_on(tmp_path: Path) -> None:
    """4 MB a step of 40 MB: short after nine steps, from when on every step is saved, and full after ten."""
    done = train("filling", tmp_path, "checkpoint.every=100", LEAKY_LIMIT="40000000")
    assert done.returncode == 75, done.stderr
    assert "Memory is short, 90 % of 40 MB (the test) in use: caches are dropped" in done.stdout
    assert (
        "in use: experience grew by 40 MB to 40 MB; step 9 is saved and `eigen2 train --resume" in done.stderr
    )
    assert "give it more memory" in done.stderr
    facts = json.loads((tmp_path / "leaky" / "run.json").read_text())
    assert (facts["status"], "memory guard" in facts["reason"]) == ("stopped", True)
    assert train("resume", tmp_path).returncode == 0
    assert json.loads((tmp_path / "leaky" / "run.json").read_text())["status"] == "done"
    assert [record["step"] for record in read_log(tmp_path / "leaky" / "metrics.jsonl")] == list(range(1, 25))
    # Why it had stopped is still on record.
    assert [len(events(tmp_path, kind)) for kind in ("memory_short", "memory_full")] == [1, 1]


def test_a_step_that_grows_without_end_is_dropped(tmp_path: Path) -> None:
    done = train("step", tmp_path, LEAKY_LIMIT="100000000")
    assert done.returncode == 75, done.stderr
    assert "Stopped by the memory guard, " in done.stderr
    # On a busy machine the step may get no chance to end: then the process ends itself.
    assert [len(events(tmp_path, kind)) for kind in ("dropped", "exit")] in ([1, 0], [0, 1])
    assert read_log(tmp_path / "leaky" / "metrics.jsonl")[-1]["step"] == 5


def test_under_a_limit_of_addresses_a_run_stops_itself(tmp_path: Path) -> None:
    """The real thing, with `ulimit -v`: 100 steps of 16 MB do not fit into 800 MB more than the process has."""
    done = train("filling", tmp_path, "alg.steps=100", LEAKY_ROOM="800000000", LEAKY_ARRAYS="4")
    assert done.returncode == 75, done.stderr
    assert "(ulimit -v) in use: experience grew by " in done.stderr
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
