"""Saves that run out of memory. Run as a program by the fault tests, because some of what it tests may not survive.

A trainer with a committed checkpoint takes one more step. In a forked process each, one allocation of the next save
fails. Demanded: the failure is said, the checkpoint before it is whole, the trainer's state is what it was, the next
save works, and what it stores is what a save without a fault stores. Where a library ends the process instead (the C
library does, for the data of a new thread), the checkpoint before is whole. The last line printed is a JSON object.
"""

import ctypes
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from eigen2.algorithms import registry
from eigen2.algorithms.contract import Trainer
from eigen2.config import resolve
from eigen2.harness.checkpointer import Checkpointer
from eigen2.harness.directory import create_run
from eigen2.harness.host import Host
from eigen2.harness.identity import identity
from eigen2.harness.own_data import OwnData
from eigen2.harness.run import Run
from eigen2.harness.training import start_run
from eigen2.harness.verify import run_fingerprint
from eigen2.store.integrity import verify
from eigen2.store.state import fingerprint

LEAST = 512
"""Bytes of the smallest allocation that the C library is let refuse; smaller ones it has at hand."""
HANGS_AFTER = 300
"""Seconds of the clock that a step and two small saves are given."""
PYTHON_MOST = 1 << 17
"""Nobody counts the objects that Python makes in a save; they are fewer than this."""
Starve = Callable[[int, int], Any]
Feed = Callable[[], int]
Say = Callable[[str], None]


class Saving:
    """A trainer after its first checkpoint, and what its next one must store."""

    def __init__(self, run: Run, trainer: Trainer, make: Callable[[Say], Checkpointer]) -> None:
        self.run, self.trainer, self._make = run, trainer, make
        self._said: list[str] = []
        trainer.step()
        first = make(self._said.append)
        first.save(1, {}, "init", wait=True)
        first.close()
        self._kept = run.path.with_name("kept")
        shutil.copytree(run.path, self._kept)
        self._wanted = self._in_child(self._undisturbed)

    def starved(self, starve: Starve, feed: Feed, first: int, last: int) -> dict[str, Any]:
        """How a save ended in which the allocations `first` to `last` failed; `problem` is what broke a promise."""
        return self._in_child(lambda: self._starved(starve, feed, first, last))

    def _undisturbed(self) -> dict[str, Any]:
        checkpointer = self._stepped()
        return {"state": fingerprint(self.trainer.state_dict()), "stored": self._saved(checkpointer)}

    def _stepped(self) -> Checkpointer:
        checkpointer = self._make(self._said.append)
        self.trainer.step()
        return checkpointer

    def _saved(self, checkpointer: Checkpointer) -> str:
        checkpointer.save(2, {}, wait=True)
        checkpointer.close()
        return str(run_fingerprint(self.run, lambda sentence: None)["fingerprint"])

    def _starved(self, starve: Starve, feed: Feed, first: int, last: int) -> dict[str, Any]:
        checkpointer, raised = self._stepped(), ""
        starve(first, last)
        try:
            checkpointer.save(2, {})
            checkpointer.collect()
        except (MemoryError, SystemError) as error:
            # Not even the sentence could be made. SystemError is an interpreter that lost the MemoryError on its way.
            raised = type(error).__name__
        finally:
            allocations = feed()
        found: dict[str, Any] = {"allocations": allocations}
        if self._said or raised:
            found["failed"] = raised or "said"
        # What fails after the commit is called a failed save, too.
        if problem := self._whole(*((1, 2) if "failed" in found else (2,))):
            found["problem"] = problem
        elif fingerprint(self.trainer.state_dict()) != self._wanted["state"]:
            found["problem"] = "the trainer's state has changed"
        elif self._saved(checkpointer) != self._wanted["stored"]:
            found["problem"] = "the next save stored something else"
        return found

    def _whole(self, *steps: int) -> str | None:
        """What is wrong with the checkpoints on the disk, of which the newest must be of one of `steps`."""
        report = verify(self.run.checkpoints)
        if not report.ok:
            return f"verify finds {report.damaged} {report.missing}"
        step = run_fingerprint(self.run, lambda sentence: None)["step"]
        return None if step in steps else f"the newest checkpoint is of step {step} (said: {self._said})"

    def _in_child(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `work` finds in a forked process; the run directory is then as it was."""
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(HANGS_AFTER)
            try:
                os.write(theirs, json.dumps(work()).encode())
            except BaseException as error:  # noqa: BLE001 - told to the parent
                os.write(theirs, json.dumps({"problem": f"{type(error).__name__}: {error}"}).encode())
            finally:
                os._exit(0)
        os.close(theirs)
        with open(ours, "rb") as answer:
            told = answer.read()
        _, status = os.waitpid(child, 0)
        found: dict[str, Any] = json.loads(told) if told else {"died": True, "problem": self._whole(1, 2)}
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            found["problem"] = "it hangs"
        self._put_back()
        return found

    def _put_back(self) -> None:
        """The logs keep their inodes: the journal has them open."""
        for part in ("checkpoints", "objects"):
            shutil.rmtree(self.run.path / part)
            shutil.copytree(self._kept / part, self.run.path / part)
        for log in self._kept.glob("*.jsonl"):
            os.truncate(self.run.path / log.name, log.stat().st_size)


@contextmanager
def saving(root: Path, overrides: list[str]) -> Iterator[Saving]:
    with open(os.devnull, "w") as nothing:
        start_run([*overrides, f"run.root={root / 'warm-up'}"], Console(file=nothing))
    config = resolve([*overrides, f"run.root={root}"], None)
    host = Host(config)
    algorithm = registry.algorithm(config.alg.kind)
    config = algorithm.resolve(config, host.services)
    with algorithm.open(config, host.services) as experiment:
        run = host.run = create_run(config)
        own_data, origin = OwnData(config, experiment, None), identity(config, experiment)
        with run.owned(), run.journal(None) as journal:
            yield Saving(
                run,
                experiment.trainer,
                lambda say: Checkpointer(run, config, experiment.trainer, origin, own_data, journal, say),
            )


def of_the_c_library() -> tuple[Starve, Feed]:
    """Arrays, tensors, buffers: what the C library gives."""
    library = ctypes.CDLL(None)
    return lambda first, last: library.failing_memory_arm(first, last, LEAST), library.failing_memory_disarm


def of_python() -> tuple[Starve, Feed]:
    """Every object of Python's own, however small."""
    import _testcapi  # type: ignore[import-not-found]

    def feed() -> int:
        _testcapi.remove_mem_hooks()
        return -1

    return lambda first, last: _testcapi.set_nomemory(first, last), feed


def main(source: str, place: str, most: str, *overrides: str) -> None:
    """Let each allocation of a save fail, or `most` of them, evenly spread."""
    python = source == "python"
    starve, feed = of_python() if python else of_the_c_library()
    ends: Counter[str] = Counter()
    problems: list[str] = []
    with saving(Path(place), list(overrides)) as trainer:
        total = _count_of_python(trainer, starve, feed) if python else _count(trainer, starve, feed)
        stride = max(1, total // int(most))
        for number in range(1, total + 1, stride):
            found = trainer.starved(starve, feed, number, number + python)
            if found.get("problem"):
                problems.append(f"allocation {number}: {found['problem']}")
            ends["died" if "died" in found else found.get("failed", "saved")] += 1
    sys.stdout.write(json.dumps({"allocations": total, "ends": ends, "problems": problems}) + "\n")


def _count(trainer: Saving, starve: Starve, feed: Feed) -> int:
    return int(trainer.starved(starve, feed, 2**31, 2**31)["allocations"])


def _count_of_python(trainer: Saving, starve: Starve, feed: Feed) -> int:
    """Python's hooks do not tell: the first number is sought from which on a stretch of failures meets nothing."""
    low, high = 1, PYTHON_MOST
    while low < high:
        middle = (low + high) // 2
        nothing = trainer.starved(starve, feed, middle, middle + 20) == {"allocations": -1}
        low, high = (low, middle) if nothing else (middle + 1, high)
    return low


if __name__ == "__main__":
    main(*sys.argv[1:])
