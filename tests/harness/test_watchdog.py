"""A run that makes no progress is told of, with the line where it hangs; if asked to, it ends and can be resumed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import eigen2
from eigen2.harness.journal import read_log
from eigen2.harness.watchdog import Watchdog

SCRIPT = Path(__file__).parents[1] / "memory" / "leaky.py"


def train(kind: str, root: Path, *more: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(eigen2.__file__).parents[1])
    return subprocess.run(
        [sys.executable, str(SCRIPT), kind, str(root), "alg.steps=4", *more],
        env=os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1", "LEAKY_SHOW": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def line_of(text: str) -> str:
    lines = SCRIPT.read_text().splitlines()
    return f"{SCRIPT}:{next(number for number, line in enumerate(lines, 1) if text in line)}"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("hang_lock", "lock.acquire(timeout"),
        pytest.param("hang_sleep", "time.sleep(", marks=pytest.mark.slow),
        pytest.param("hang_python", "events.read_bytes", marks=pytest.mark.slow),
    ],
)
def test_a_hang_is_told_with_its_phase_and_line_and_all_stacks(tmp_path: Path, kind: str, text: str) -> None:
    done = train(kind, tmp_path, "run.stall_minutes=0.005")
    assert done.returncode == 0, done.stderr
    told = [r for r in read_log(tmp_path / "leaky" / "events.jsonl") if r["kind"] == "stall"]
    found = next(record for record in told if record["phase"] == "evolve")
    assert found["message"] in done.stdout
    assert str(SCRIPT) in found["line"]
    if kind != "hang_python":
        assert found["line"].startswith(f"{line_of(text)} in hang")
    assert any(line.endswith("in hang") for line in found["stacks"]["MainThread"])
    assert "watch" in found["stacks"]


@pytest.mark.parametrize(
    "kind",
    ["hang_lock", *(pytest.param(k, marks=pytest.mark.slow) for k in ("hang_sleep", "hang_python"))],
)
def test_a_hang_ends_with_75_if_asked_to(tmp_path: Path, kind: str) -> None:
    done = train(kind, tmp_path, "run.stall_abort=true")
    assert done.returncode == 75, done.stderr
    assert "Stopped by the watchdog (no progress in the evolve phase for " in done.stderr
    assert "step 2 is saved and `eigen2 train --resume " in done.stderr
    kinds = [record["kind"] for record in read_log(tmp_path / "leaky" / "events.jsonl")]
    assert kinds[-2:] == ["stall", "dropped"]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def after(watchdog: Watchdog, clock: Clock, seconds: float, looks: int) -> None:
    for _ in range(looks):
        clock.now += seconds / looks
        watchdog.look()


def test_a_stall_is_told_once_and_again_when_the_silence_has_doubled() -> None:
    told: list[tuple[str, float]] = []
    clock = Clock()
    watchdog = Watchdog(80.0, lambda *found: told.append(found), clock)
    watchdog.heard("train")
    after(watchdog, clock, 70, 7)
    watchdog.heard("train")
    after(watchdog, clock, 80, 8)
    assert told == []
    after(watchdog, clock, 10, 1)
    assert told == [("train", 80.0)]
    after(watchdog, clock, 60, 6)
    assert len(told) == 1
    after(watchdog, clock, 20, 2)
    assert told == [("train", 80.0), ("train", 160.0)]


def test_a_machine_that_slept_has_not_stalled() -> None:
    told: list[tuple[str, float]] = []
    clock = Clock()
    watchdog = Watchdog(80.0, lambda *found: told.append(found), clock)
    watchdog.look()
    clock.now += 100_000.0
    watchdog.look()
    assert told == []


def test_it_can_be_turned_off() -> None:
    watchdog = Watchdog(0.0, lambda *found: pytest.fail("told"), Clock())
    assert watchdog.look() == float("inf")
