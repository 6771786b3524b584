"""The world of the soak: machines with runs, a bucket, a small disk, and what must be true of every run in it.

A `Life` is a run as the model knows it: what was seen committed stays, evaluations are never fewer, and the
newest checkpoint has the fingerprint that an undisturbed run of its kind has at that step.
"""

import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command_lab import (
    FLOW_WORLD_MODEL,
    ORDERS,
    PENDULUM,
    PLUG_INS,
    WEIGHTS,
    WORLD_MODEL,
    Done,
    Lab,
    Moment,
    Started,
    resumable,
    story,
    write_prices,
)

STEPS = 5
DESIGNED = (0, 2, 3, 4, 5, 75)
HANGS_AFTER = 900
"""Seconds after which a command that should take a few is said to hang."""
LIVES = 7
"""Runs that are there at a time."""
MOST_PROBLEMS = 20


def kinds(prices: Path) -> dict[str, tuple[str, ...]]:
    """Small runs of every sort, by name; `processes` computes what `orders` does."""
    own = (part for part in ORDERS if not part.startswith(("env.data", "env.synthetic")))
    erl, pwm = f"alg.generations={STEPS}", f"alg.iterations={STEPS}"
    return {
        "orders": (*ORDERS, erl),
        "weights": (*WEIGHTS, erl),
        "gym": (*PENDULUM, erl),
        "csv": (f"env.data={prices}", *own, erl),
        "mlp": (*WORLD_MODEL, pwm),
        "flow": (*FLOW_WORLD_MODEL, pwm),
        "processes": (*ORDERS, erl, "cluster=processes", "workers=2"),
    }


@dataclass
class Life:
    name: str
    kind: str
    root: Path
    cloud: bool = False
    committed: int = -1
    """The newest step that was ever seen in a manifest."""
    evaluations: int = 0
    """Evaluations, uses of the holdout among them, that were ever seen recorded."""
    finished: bool = False
    away: bool = False
    """Its machine is gone and no other one has it whole: what was committed is in the bucket."""

    @property
    def path(self) -> Path:
        return self.root / self.name

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}{', cloud' if self.cloud else ''}, step {self.committed})"


@dataclass
class Undisturbed:
    """What a run of a kind is when nothing happens to it."""

    fingerprints: dict[int, str] = field(default_factory=dict)
    story: dict[str, bytes] = field(default_factory=dict)
    seconds: float = 1.0
    """How long it takes; longer when the machine is busy."""


class Process:
    """An `eigen2` of its own, not forked from one that has imported everything."""

    def __init__(self, out: Path, *words: str | Path) -> None:
        self.out, self.err = out, out.with_suffix(".err")
        # The package under test is the one that the tests import, also when it is not the installed one.
        inherited = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
        paths = os.pathsep.join([PLUG_INS, *inherited])
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
        with open(self.out, "w") as told, open(self.err, "w") as complained:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "eigen2", *map(str, words)],
                stdout=told,
                stderr=complained,
                env=environment,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def wait(self) -> Done:
        code = self._process.wait()
        return Done(code, self.out.read_text(encoding="utf-8"), self.err.read_text(encoding="utf-8"))


class World:
    """Places, processes and the account of what happened; `small` is a disk of a few megabytes, if there is one."""

    def __init__(
        self, lab: Lab, base: Path, seed: int, small: Path | None, tell: Callable[[str], None]
    ) -> None:
        self.lab, self.base, self.small, self.tell = lab, base, small, tell
        self.stream = random.Random(seed)
        self.bucket = base / "bucket"
        self.bucket.mkdir()
        prices = base / "prices.csv"
        write_prices(prices)
        self.kinds = kinds(prices)
        self.undisturbed = {kind: Undisturbed() for kind in self.kinds}
        self.lives: list[Life] = []
        self.born = 0
        self.counts: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.problems: list[str] = []
        self.doing = ""
        self.ledger = Path(os.environ["EIGEN2_LEDGER"])
        """Counts uses of holdouts over all runs; lines are only added."""
        self._uses = 0
        self.commands = 0

    # Commands

    def start(self, *words: str | Path, alone: bool = False, **options: Any) -> "Started | Process":
        self.commands += 1
        if alone and not options:
            return Process(self.base / "outputs" / f"alone-{self.commands}.out", *words)
        return self.lab.start(*words, **options)

    def end(self, started: "Started | Process", *allowed: int) -> Done:
        """Wait for a command; its output and its exit code are judged."""
        handle = os.pidfd_open(started.pid)
        try:
            if not select.select([handle], [], [], HANGS_AFTER)[0]:
                self.problem(f"process {started.pid} hangs")
                send(started.pid, signal.SIGKILL, group=True)
        finally:
            os.close(handle)
        done = started.wait()
        self.judge(done, allowed)
        for path in (started.out, started.err):
            path.unlink(missing_ok=True)
        return done

    def command(self, *words: str | Path, allowed: Iterable[int] = (0,), **options: Any) -> Done:
        return self.end(self.start(*words, **options), *allowed)

    def judge(self, done: Done, allowed: Iterable[int]) -> None:
        verb = self.doing.split(":")[0]
        self.codes[f"{verb} {done.code}"] += 1
        if "Traceback" in done.out + done.err:
            self.problem("a traceback", done)
        if done.code not in allowed:
            self.problem(f"exit code {done.code}, not one of {sorted(set(allowed))}", done)
        elif done.code > 0 and not any(line.startswith("eigen2: ") for line in done.err.splitlines()):
            self.problem(f"exit code {done.code} without a sentence", done)

    def pause(self, seconds: float) -> None:
        """The moment falls wherever the other process happens to be."""
        select.select([], [], [], seconds)

    # What must be true

    def examine(self, life: Life) -> bool:
        """After an action: is the run what the model says? One that is not born yet is forgotten."""
        if life.away:
            return self._examine_bucket(life)
        if not (self.seen(life.path) / "config.yaml").exists():
            if life.committed >= 0:
                self.problem(f"{life} is gone")
            return False
        before = len(self.problems)
        step, evaluations = resumable(self.seen(life.path)), self.evaluations(life)
        if step < life.committed:
            self.problem(f"{life}: step {life.committed} was committed, the newest is {step}")
        if evaluations < life.evaluations:
            self.problem(f"{life}: {life.evaluations} evaluations were recorded, now {evaluations}")
        if lines(self.ledger) < self._uses:
            self.problem(f"the ledger of holdouts had {self._uses} lines, now {lines(self.ledger)}")
        self._uses = lines(self.ledger)
        life.committed, life.evaluations = max(step, life.committed), max(evaluations, life.evaluations)
        if step >= 0:
            self.command("verify", life.path)
            self.same_bits(life.kind, life.path)
        if life.finished and not life.cloud:
            mine, wanted = story(self.seen(life.path)), self.undisturbed[life.kind].story
            for name in wanted:
                if mine[name] != wanted[name]:
                    self.problem(f"{life}: {name} differs")
        return len(self.problems) == before

    def _examine_bucket(self, life: Life) -> bool:
        step = resumable(self.in_bucket(life))
        if step < life.committed:
            self.problem(f"{life}: step {life.committed} was in the bucket, the newest there is {step}")
        return step >= life.committed

    def same_bits(self, kind: str, path: Path, allowed: Iterable[int] = (0,)) -> int:
        """The fingerprint of a run's newest checkpoint is that of an undisturbed run; returns its step."""
        done = self.command("fingerprint", path, "--json", allowed=allowed)
        if done.code != 0:
            return -1
        facts = json.loads(done.out)
        if facts["fingerprint"] != self.undisturbed[kind].fingerprints[facts["step"]]:
            self.problem(f"{path.name} ({kind}): the fingerprint of step {facts['step']} differs", done)
        return int(facts["step"])

    def evaluations(self, life: Life) -> int:
        return lines(self.seen(life.path) / "evaluations.jsonl")

    def problem(self, what: str, done: Done | None = None) -> None:
        said = "" if done is None else f"\n  stdout: {done.out[-1500:]}\n  stderr: {done.err[-3000:]}"
        self.problems.append(f"[{self.doing}] {what}{said}")
        self.tell(self.problems[-1])

    # Places

    def seen(self, path: Path) -> Path:
        """A place as the commands see it, whose mounts are their own."""
        return path if self.small is None else Path(f"/proc/{self.lab.pid}/root{path}")

    def in_bucket(self, life: Life) -> Path:
        return self.bucket / life.name

    def bury(self, life: Life) -> None:
        self.lives.remove(life)
        shutil.rmtree(self.seen(life.path), ignore_errors=True)
        if life.cloud:
            shutil.rmtree(self.in_bucket(life), ignore_errors=True)

    def keep_evidence(self, life: Life) -> None:
        """A copy of a run about which something is wrong, to be looked at."""
        place = self.base / "evidence" / f"{len(self.problems)}-{life.name}"
        place.mkdir(parents=True, exist_ok=True)
        if self.seen(life.path).exists():
            shutil.copytree(self.seen(life.path), place, symlinks=True, dirs_exist_ok=True)
        (place / "problems.txt").write_text("\n\n".join(self.problems), encoding="utf-8")

    # The model

    def learn(self) -> None:
        """Train every kind undisturbed, and once more in single steps, whose fingerprints are remembered."""
        root = self.base / "undisturbed"
        for kind, overrides in self.kinds.items():
            if kind == "processes":
                self.undisturbed[kind] = self.undisturbed["orders"]
                continue
            self.doing = f"learn: {kind}"
            facts, began = self.undisturbed[kind], time.monotonic()
            whole = self.lab.train(f"{kind}-whole", overrides, root)
            facts.seconds, facts.story = time.monotonic() - began, story(whole)
            path = root / f"{kind}-steps"
            words: tuple[str | Path, ...] = (*overrides, f"run.root={root}", f"run.name={path.name}")
            for step in range(1, STEPS):
                stop = (Moment("stepped", "SIGTERM", 1),)
                self.command("train", *words, moments=stop, allowed=(75,))
                words = ("--resume", path)
                if step == 1:
                    first = root / f"{kind}-first"
                    shutil.copytree(path, first)
                    (first / "checkpoints" / "latest.json").unlink()
                    facts.fingerprints[0] = self._fingerprint(first, 0)
                facts.fingerprints[step] = self._fingerprint(path, step)
            facts.fingerprints[STEPS] = self._fingerprint(whole, STEPS)
        shutil.rmtree(root)

    def _fingerprint(self, run: Path, step: int) -> str:
        facts = self.command("fingerprint", run, "--json").json
        assert facts["step"] == step, (run, facts)
        return str(facts["fingerprint"])


def send(pid: int, number: signal.Signals, group: bool = False) -> None:
    """A process that has ended already gets none."""
    with suppress(ProcessLookupError):
        if group:
            with suppress(ProcessLookupError):
                os.killpg(pid, number)
                return
        os.kill(pid, number)


def lines(log: Path) -> int:
    """Complete lines of a log."""
    return log.read_bytes().count(b"\n") if log.exists() else 0
