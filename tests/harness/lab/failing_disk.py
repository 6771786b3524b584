"""What must be true of a run whose disk failed: nothing committed is lost, one designed sentence, the same bits."""

import errno
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from command_lab import Done, Fault, Lab, Moment, resumable, story

DESIGNED = (0, 2, 3, 4, 5, 75)
SHORT, TORN = -1, -2
ERRORS = {
    "EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EROFS": errno.EROFS, "EDQUOT": errno.EDQUOT,
    "short write": SHORT, "torn write": TORN,
}  # fmt: skip
FOREVER = 2**31


@dataclass(frozen=True)
class Undisturbed:
    """The run that no fault has met."""

    fingerprints: dict[int, str]
    story: dict[str, bytes]

    @property
    def last(self) -> int:
        return max(self.fingerprints)


@dataclass(frozen=True)
class Case:
    """Operation `index` fails with `error`; a dead disk fails from there on."""

    index: int
    error: str
    dead: bool = False

    def __str__(self) -> str:
        return f"{self.error} at operation {self.index}{' and ever after' if self.dead else ''}"


@dataclass
class Findings:
    """How the cases ended, and what was wrong."""

    cases: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    """Operations that were let fail at least once, by call and file."""

    def sentence(self) -> str:
        ends = ", ".join(f"{count} with exit code {code}" for code, count in sorted(self.codes.items()))
        return f"{self.cases} faults, {len(self.failed)} kinds of operation: {ends}; {len(self.wrong)} wrong"


class FailingDisk:
    """Runs of one configuration on a disk that fails; a step of it must take less than its checkpoint is worth."""

    def __init__(self, lab: Lab, overrides: tuple[str, ...], steps: int, place: Path) -> None:
        self.lab, self.overrides, self.place = lab, overrides, place
        self.undisturbed = self._undisturbed(steps)
        self.begun = self._begun(place / "begun")
        """A run that was stopped after its first step."""

    def operations(self, resumed: bool, reads: bool = False) -> list[str]:
        """What an undisturbed run does to files below its root: call and file, in order."""
        root = self._root(resumed)
        done, lines = self._train(root, resumed, reads=reads)
        assert done.code == 0, done.err
        shutil.rmtree(root)
        return lines

    def examine(self, case: Case, findings: Findings, resumed: bool = False, reads: bool = False) -> None:
        root = self._root(resumed)
        done, lines = self._train(root, resumed, case, reads)
        findings.cases += 1
        findings.codes[done.code] += 1
        hit = {_kind(line) for line in lines if line.endswith((" FAILS", " HALF"))}
        findings.failed |= hit
        wrong = [*self._said(done), *self._after(done, root, [] if reads else lines, resumed)]
        begun = "a resumed run" if resumed else "a new run"
        findings.wrong += [f"{begun}, {case} ({', '.join(sorted(hit))}): {what}" for what in wrong]
        if not wrong:
            shutil.rmtree(root, ignore_errors=True)

    def _root(self, resumed: bool) -> Path:
        root = self.place / "faulty"
        shutil.rmtree(root, ignore_errors=True)
        if resumed:
            shutil.copytree(self.begun, root, symlinks=True)
        return root

    def _train(
        self, root: Path, resumed: bool, case: Case | None = None, reads: bool = False
    ) -> tuple[Done, list[str]]:
        log = self.place / "operations.log"
        log.unlink(missing_ok=True)
        fault = Fault(root, log, reads=reads)
        if case is not None:
            last = FOREVER if case.dead else case.index
            fault = Fault(root, log, case.index, last, ERRORS[case.error], reads)
        words = (
            ("--resume", root / "mine") if resumed else (*self.overrides, f"run.root={root}", "run.name=mine")
        )
        done = self.lab.run("train", *words, fault=fault)
        return done, log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    @staticmethod
    def _said(done: Done) -> Iterator[str]:
        if done.code not in DESIGNED:
            yield f"exit code {done.code}: {done.err[-500:]}"
        if "Traceback" in done.out + done.err:
            yield f"a traceback: {(done.out + done.err)[-2000:]}"
        sentences = [line for line in done.err.splitlines() if line.startswith("eigen2: ")]
        if len(sentences) != (done.code != 0):
            yield f"exit code {done.code} with {len(sentences)} sentences: {done.err!r}"

    def _after(self, done: Done, root: Path, lines: Iterable[str], resumed: bool) -> Iterator[str]:
        run = root / "mine"
        commits = sum(
            " rename" in line and line.endswith("/mine/checkpoints/latest.json") for line in lines
        ) + (2 if resumed else 0)
        step = resumable(run)
        # A checkpoint that could not be read is passed over, and made again.
        if step < commits - 1:
            yield f"{commits} checkpoints were committed, the newest is of step {step}"
        if step >= 0:
            yield from self._whole(run, "after the fault")
        if done.code != 0:
            if (run / "config.yaml").exists():
                again = self.lab.run("train", "--resume", run)
            else:
                again = self.lab.run("train", *self.overrides, f"run.root={root}", "run.name=mine")
            if again.code != 0:
                yield f"the resume ended with {again.code}: {again.err[-500:]}"
                return
            yield from self._whole(run, "after the resume")
        if resumable(run) != self.undisturbed.last:
            yield f"the run ended at step {resumable(run)}"
        mine = story(run)
        yield from (f"{name} differs" for name, told in self.undisturbed.story.items() if mine[name] != told)
        evaluations = (run / "evaluations.jsonl").read_text(encoding="utf-8").splitlines()
        if not evaluations:
            yield "the evaluation is not recorded"
        for line in evaluations:
            json.loads(line)

    def _whole(self, run: Path, when: str) -> Iterator[str]:
        verified = self.lab.run("verify", run)
        if verified.code != 0:
            yield f"verify {when} says {verified.err}"
        found = self.lab.run("fingerprint", run, "--json")
        if found.code != 0:
            yield f"fingerprint {when} says {found.err}"
        elif found.json["fingerprint"] != self.undisturbed.fingerprints[found.json["step"]]:
            yield f"the fingerprint of step {found.json['step']} differs {when}"

    def _undisturbed(self, steps: int) -> Undisturbed:
        fingerprints = {}
        for step in range(1, steps):
            run = self._stopped(self.place / f"stopped-{step}", step)
            fingerprints[step] = self._fingerprint(run)
            if step == 1:
                (run / "checkpoints" / "latest.json").unlink()
                fingerprints[0] = self._fingerprint(run)
        run = self.lab.train("whole", self.overrides, self.place)
        fingerprints[steps] = self._fingerprint(run)
        assert resumable(run) == steps
        return Undisturbed(fingerprints, story(run))

    def _begun(self, root: Path) -> Path:
        self._stopped(root, 1)
        return root

    def _stopped(self, root: Path, step: int) -> Path:
        stop = (Moment("stepped", "SIGTERM", step),)
        words = (*self.overrides, f"run.root={root}", "run.name=mine")
        assert self.lab.run("train", *words, moments=stop).code == 75
        return root / "mine"

    def _fingerprint(self, run: Path) -> str:
        return str(self.lab.run("fingerprint", run, "--json").json["fingerprint"])


def _kind(line: str) -> str:
    """Call and file of a line of the log; names that differ from run to run are cut to what they have in common."""
    _, call, rest = line.split(" ", 2)
    path = rest.removesuffix(" FAILS").removesuffix(" HALF")
    for mark in ("/objects/", "/.incoming-", "/.new-", "/.latest-"):
        before, found, _ = path.partition(mark)
        path = before + found
    return f"{call} {path}"


def kinds(lines: Iterable[str]) -> set[str]:
    return {_kind(line) for line in lines}
