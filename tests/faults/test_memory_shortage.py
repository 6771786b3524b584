"""A save that runs out of memory fails with a sentence: the checkpoint before is whole, and the next save works."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_lab import PENDULUM, compiled

from eigen2.errors import ResourceError
from eigen2.store.background import BackgroundSaver
from eigen2.store.shortage import within_memory

LAB = Path(__file__).with_name("memory_lab.py")
TINY = (
    *PENDULUM, "env.max_episode_steps=5", "alg.windows=1", "alg.validation_windows=1", "alg.learning_starts=5",
)  # fmt: skip
ALL = 1_000_000


def starved(source: str, place: Path, most: int) -> dict[str, Any]:
    """What the lab found; a broken promise fails the test with the lab's own words."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if source == "c":
        library = compiled("failing_memory.c", place)
        if library is None:
            pytest.skip("memory that runs out on request needs a C compiler and Linux")
        environment["LD_PRELOAD"] = str(library)
    elif importlib.util.find_spec("_testcapi") is None:
        pytest.skip("this Python comes without its test modules")
    done = subprocess.run(
        [sys.executable, LAB, source, place / "runs", str(most), *TINY],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["problems"] == []
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("source", "most"), [("c", 8), pytest.param("python", 12, marks=pytest.mark.slow)])
def test_a_save_that_runs_out_of_memory_loses_nothing(tmp_path: Path, source: str, most: int) -> None:
    """`c`: arrays, tensors and buffers. `python`: every object of the interpreter."""
    assert starved(source, tmp_path, most)["ends"]["said"] > most // 2


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("source", "most"), [("c", ALL), ("python", 4000)])
def test_every_allocation_of_a_save_may_fail(
    tmp_path: Path, source: str, most: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = starved(source, tmp_path, most)
    with capsys.disabled():
        print(f"\nmemory ({source}): {found['allocations']} allocations in a save; {found['ends']}")  # noqa: T201


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
)
def test_a_shortage_is_one_sentence_whoever_notices_it(error: Exception) -> None:
    with (
        pytest.raises(ResourceError, match="The checkpoint did not fit into memory"),
        within_memory("The checkpoint"),
    ):
        raise error


def test_another_failure_is_no_shortage() -> None:
    with pytest.raises(RuntimeError, match="shapes"), within_memory("The checkpoint"):
        raise RuntimeError("shapes do not match")


def test_a_saving_thread_that_died_is_noticed_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigen2.store.background.LOOKS_AFTER_SECONDS", 0.01)
    with BackgroundSaver[int]() as saver:
        monkeypatch.setattr("eigen2.store.background._Job.run", _no_memory)
        saver.submit(lambda: 1)
        with pytest.raises(ResourceError, match="died"):
            saver.wait()
        monkeypatch.undo()
        saver.submit(lambda: 2)
        assert saver.wait() == 2


def _no_memory(job: object) -> None:
    raise MemoryError
