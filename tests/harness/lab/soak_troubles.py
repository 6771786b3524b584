"""What happens to a training while it runs: kills, signals, faults, a full disk, readers, moves."""

import errno
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from command_lab import Fault, Moment, Started, resumable
from soak_world import STEPS, Life, Process, World, lines, send

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
FAULTS = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT, -1, -2)
READERS = ("verify", "fingerprint", "evaluate", "holdout", "memory", "replay", "runs", "status")
MARKETS = ("orders", "weights", "csv", "processes")
FOREVER = 2**31


class Troubles:
    """Each method trains a life with `words` and lets something happen; the exit code is judged."""

    WEIGHTS = {
        "quiet": 3, "kill": 5, "kill_group": 3, "kill_at_operation": 5, "stop": 6, "stop_twice": 2, "freeze": 1,
        "fault": 6, "dead_disk": 3, "bucket_fault": 3, "full_disk": 5, "readers": 4, "second_trainer": 1, "moved": 2,
        "replaced": 1,
    }  # fmt: skip

    def __init__(self, world: World) -> None:
        self.world, self.stream = world, world.stream

    def possible(self, life: Life) -> dict[str, int]:
        weights = dict(self.WEIGHTS)
        on_small = life.root == self.world.small
        if not on_small:
            del weights["full_disk"]
        if not life.cloud:
            del weights["bucket_fault"]
        if life.cloud or on_small:
            del weights["replaced"]
        if on_small:
            del weights["moved"]
        return weights

    def quiet(self, life: Life, *words: str | Path) -> None:
        # The small disk is seen by the laboratory's children alone.
        alone = life.root != self.world.small and self.stream.random() < 0.15
        self._finished(life, self.world.command("train", *words, alone=alone).code)

    def kill(self, life: Life, *words: str | Path, group: bool = False) -> None:
        alone = life.root != self.world.small and self.stream.random() < 0.15
        started = self._begun(life, *words, alone=alone)
        send(started.pid, signal.SIGKILL, group)
        self._finished(life, self.world.end(started, -signal.SIGKILL, 0).code)

    def kill_group(self, life: Life, *words: str | Path) -> None:
        self.kill(life, *words, group=True)

    def kill_at_operation(self, life: Life, *words: str | Path) -> None:
        moments = (Moment("operation", "SIGKILL", self.stream.randint(1, 600)),)
        self._finished(life, self.world.command("train", *words, moments=moments, allowed=(-9, 0)).code)

    def stop(self, life: Life, *words: str | Path, times: int = 1) -> None:
        if self.stream.random() < 0.3:
            words = (*words, "run.grace_seconds=0")
        number, started = self.stream.choice(STOPS), self._begun(life, *words)
        group = self.stream.random() < 0.3
        for _ in range(times):
            send(started.pid, number, group)
            self.world.pause(self.stream.uniform(0, 0.2))
        done = self.world.end(started, 75, 0, -number)
        # Before it has said anything, a command has no way yet to stop in order.
        if done.code == -number and done.out:
            self.world.problem(f"{number.name} killed it", done)
        self._finished(life, done.code)

    def stop_twice(self, life: Life, *words: str | Path) -> None:
        self.stop(life, *words, times=2)

    def freeze(self, life: Life, *words: str | Path) -> None:
        started = self._begun(life, *words)
        send(started.pid, signal.SIGSTOP, group=True)
        self.look(life)
        send(started.pid, signal.SIGCONT, group=True)
        self._finished(life, self.world.end(started, 0).code)

    def fault(self, life: Life, *words: str | Path, dead: bool = False) -> None:
        first = self.stream.randint(1, 600)
        reads = self.stream.random() < 0.25
        error = self.stream.choice(FAULTS[:4] if dead else FAULTS)
        fault = Fault(
            life.root, self.world.base / "faults.log", first, FOREVER if dead else first, error, reads
        )
        # A place that may not be written to is the user's to choose; a file that cannot be read is damage.
        allowed = (0, 4, *((2,) if error == errno.EROFS else ()), *((5,) if reads else ()))
        self._faulty(life, fault, words, allowed)

    def dead_disk(self, life: Life, *words: str | Path) -> None:
        self.fault(life, *words, dead=True)

    def bucket_fault(self, life: Life, *words: str | Path) -> None:
        first, error = self.stream.randint(1, 300), self.stream.choice(FAULTS[:4])
        last = FOREVER if self.stream.random() < 0.3 else first
        fault = Fault(self.world.bucket, self.world.base / "faults.log", first, last, error)
        self._faulty(life, fault, (*words, "cloud.drain_seconds=5"), (0, 2, 4))

    def full_disk(self, life: Life, *words: str | Path) -> None:
        ballast = self.world.seen(life.root) / "ballast"
        started = self._begun(life, *words)
        room = self.stream.choice((0, 4096, 50_000, 400_000))
        with suppress(OSError):
            ballast.write_bytes(bytes(max(0, shutil.disk_usage(ballast.parent).free - room)))
        done = self.world.end(started, 0, 4)
        ballast.unlink(missing_ok=True)
        self._finished(life, done.code)

    def readers(self, life: Life, *words: str | Path) -> None:
        started = self._begun(life, *words)
        for _ in range(self.stream.randint(1, 4)):
            self.look(life)
        self._finished(life, self.world.end(started, 0).code)

    def second_trainer(self, life: Life, *words: str | Path) -> None:
        started = self._begun(life, *words)
        if (self.world.seen(life.path) / "config.yaml").exists():
            self.world.command("train", "--resume", life.path, allowed=(0, 2))
        self._finished(life, self.world.end(started, 0, 2).code)

    def moved(self, life: Life, *words: str | Path) -> None:
        """`mv` under a trainer: it stops with a sentence, and nothing appears at the old place."""
        started, before = self._begun(life, *words), life.path
        there = self.world.base / f"machine-{self.stream.randint(1, 3)}"
        there.mkdir(exist_ok=True)
        if there == life.root or not before.exists():
            self._finished(life, self.world.end(started, 0).code)
            return
        os.rename(before, there / life.name)
        life.root = there
        done = self.world.end(started, 0, 2, 5, 75)
        # A resume that had not opened the run yet finds none.
        gone = "No run called" in done.err or "moved or deleted" in done.err
        if done.code == 2 and not gone:
            self.world.problem(f"moved under its trainer, which called it a wrong command: {done.err}", done)
        if before.exists():
            self.world.problem(f"{before} was made anew after it was moved", done)
        self._finished(life, done.code)

    def replaced(self, life: Life, *words: str | Path) -> None:
        """Deleted and made again under a frozen trainer: one run has one owner."""
        world, before = self.world, self.world.evaluations(life)
        started = self._begun(life, *words)
        send(started.pid, signal.SIGSTOP)
        if not life.path.exists():
            send(started.pid, signal.SIGCONT)
            self._finished(life, world.end(started, 0).code)
            return
        # One that was done, or that had not opened the run yet, is not disturbed.
        unopened = "--resume" in words and "resumed" not in started.out.read_text(encoding="utf-8")
        may_end = life.finished or unopened or world.evaluations(life) > before
        shutil.rmtree(life.path)
        kind = self.stream.choice([kind for kind in world.kinds if kind not in (life.kind, "processes")])
        world.lives.remove(life)
        new = Life(life.name, kind, life.root)
        world.lives.append(new)
        self.quiet(new, *world.kinds[kind], f"run.root={new.root}", f"run.name={new.name}")
        send(started.pid, signal.SIGCONT)
        done = world.end(started, 0, 5, 75)
        if done.code == 0 and not may_end:
            world.problem("a trainer whose run was replaced says that it is done", done)
        world.examine(new)

    def look(self, life: Life) -> None:
        """One reader; beside a trainer there may be no checkpoint yet."""
        world, verb = self.world, self.stream.choice(READERS)
        if verb == "status" and not life.cloud:
            verb = "verify"
        there = (world.seen(life.path) / "config.yaml").exists()
        before, step = (world.evaluations(life), resumable(world.seen(life.path))) if there else (0, -1)
        uses = lines(world.ledger)
        words = {
            "holdout": ("evaluate", life.path, "--split", "holdout"),
            "replay": ("replay", "info", life.path),
            "runs": ("runs", "--root", life.root),
            "status": ("sync", "status", life.path),
        }.get(verb, (verb, life.path))
        world.counts[f"read {verb}"] += 1
        doing, world.doing = world.doing, f"read {verb} / {world.doing}"
        # Before the first step some algorithms have no champion to evaluate.
        known = step > 0 or (step == 0 and words[0] != "evaluate") or verb == "runs"
        done = world.command(*words, allowed=(0,) if known else (0, 2) if step == 0 else (0, 2, 5))
        if words[0] == "evaluate" and done.code == 0 and world.evaluations(life) <= before:
            world.problem(f"{life}: an evaluation was shown and not recorded", done)
        if verb == "holdout" and done.code == 0 and life.kind in MARKETS and lines(world.ledger) <= uses:
            world.problem(f"{life}: a use of the holdout was shown and is not in the ledger", done)
        world.doing = doing

    def _begun(self, life: Life, *words: str | Path, alone: bool = False) -> "Started | Process":
        """A training that has run for a while, anything from nothing to all of its time."""
        started = self.world.start("train", *words, alone=alone)
        seconds = self.world.undisturbed[life.kind].seconds * (3 if alone or life.kind == "processes" else 1)
        self.world.pause(self.stream.uniform(0, 1.1) * seconds)
        return started

    def _faulty(
        self, life: Life, fault: Fault, words: tuple[str | Path, ...], allowed: tuple[int, ...]
    ) -> None:
        done = self.world.command("train", *words, fault=fault, allowed=allowed)
        fault.log.unlink(missing_ok=True)
        self._finished(life, done.code)

    def _finished(self, life: Life, code: int) -> None:
        life.finished = code == 0
        path = self.world.seen(life.path)
        if code == 0 and path.exists() and resumable(path) != STEPS:
            self.world.problem(f"{life}: exit code 0 at step {resumable(path)}")
