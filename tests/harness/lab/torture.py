"""Lives that end by kill -9: a run is killed and resumed until it is done, and must then be the run nobody killed."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command_lab import Lab, Moment, newest, story

from eigen2.errors import DamagedStateError
from eigen2.harness.run import Run
from eigen2.store.integrity import verify


@dataclass
class Toll:
    """What the kills cost."""

    kills: int = 0
    while_saving: int = 0
    runs: int = 0
    lost: list[str] = field(default_factory=list)
    corrupt: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)

    def sentence(self) -> str:
        return (
            f"{self.kills} kills over {self.runs} runs, {self.while_saving} of them at a file operation: "
            f"{len(self.lost)} lost committed checkpoints, {len(self.corrupt)} corrupt, {len(self.differing)} differing"
        )


def torture(
    lab: Lab,
    root: Path,
    overrides: tuple[str, ...],
    reference: Path,
    kills: int,
    stream: random.Random,
    toll: Toll,
) -> None:
    """Train one run to its end through up to `kills` kills, and compare it with `reference`."""
    toll.runs += 1
    name = f"victim-{toll.runs}"
    run, committed, left = root / name, -1, kills
    while True:
        arguments = (
            ["--resume", str(run)] if run.exists() else [*overrides, f"run.root={root}", f"run.name={name}"]
        )
        death = _death(stream, longest=0.35 if "env=gym" in overrides else 1.0) if left else {}
        done = lab.run("train", *arguments, **death)
        if not done.killed:
            assert done.code == 0, done.err
            break
        toll.kills += 1
        toll.while_saving += "moments" in death
        left -= 1
        if run.exists():
            committed = _examine(run, committed, toll)
    _compare(lab, run, reference, toll)


def _death(stream: random.Random, longest: float) -> dict[str, Any]:
    """Before a random file operation, or after a random time on the CPU of at most `longest` seconds."""
    if stream.random() < 0.5:
        return {"moments": (Moment("operation", "SIGKILL", stream.randint(1, 400)),)}
    return {"cpu_seconds": stream.uniform(0.02, longest)}


def _examine(run: Path, committed: int, toll: Toll) -> int:
    """After a kill: everything that was committed is there, and every byte of it verifies."""
    report = verify(Run(run).checkpoints)
    toll.corrupt += [f"{run.name}: {problem}" for problem in (*report.damaged, *report.missing)]
    try:
        found = newest(run)
    except (ValueError, LookupError, DamagedStateError) as error:
        toll.corrupt.append(f"{run.name}: {error}")
        return committed
    if found < committed:
        toll.lost.append(f"{run.name}: step {committed} was committed, the newest is {found}")
    return max(found, committed)


def _compare(lab: Lab, run: Path, reference: Path, toll: Toll) -> None:
    ours, theirs = story(run), story(reference)
    toll.differing += [f"{run.name}: {name}" for name in theirs if ours[name] != theirs[name]]
    if lab.run("fingerprint", run).out != lab.run("fingerprint", reference).out:
        toll.differing.append(f"{run.name}: fingerprint")
    toll.corrupt += [f"{run.name}: orphan {path}" for path in verify(Run(run).checkpoints).orphaned]
