"""Crashes on purpose. Run as a program by the fault tests, because what it tests does not survive.

Every experiment saves checkpoints whose whole content follows from the step, breaks something, and then demands
that the newest good checkpoint is at least the newest committed one and is right in every bit. The last line it
prints is a JSON object with what happened; a broken promise is a traceback and exit code 1.
"""

import errno
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eigen2.errors import ResourceError
from eigen2.store import checkpoints as checkpoints_module
from eigen2.store.checkpoints import Checkpoints, NewCheckpoint
from eigen2.store.integrity import verify
from eigen2.store.objects import reference
from eigen2.store.state import fingerprint


def state_at(step: int) -> dict[str, Any]:
    stream = np.random.Generator(np.random.PCG64(step))
    return {
        "actor": {"weight": torch.from_numpy(stream.standard_normal(4000)), "step": step},
        "critic": [stream.standard_normal(500).astype(np.float32), (1, 2.5, None)],
        "frozen": torch.arange(2000),
        "random": stream.bit_generator.state,
    }


class SnapshotAt:
    """A replay of the last few chunks; each step adds one and forgets one."""

    def __init__(self, step: int, chunk_bytes: int = 3000) -> None:
        chunks = [
            np.random.Generator(np.random.PCG64(i)).bytes(chunk_bytes)
            for i in range(step - 3, step + 1)
            if i >= 0
        ]
        self.contents = {reference([chunk]).hash: chunk for chunk in chunks}
        self.manifest = {"segments": list(self.contents)}

    def write(self, put: Callable[[list[bytes]], str], has: Callable[[str], bool]) -> dict[str, Any]:
        for name, chunk in self.contents.items():
            if not has(name):
                put([chunk])
        return self.manifest


def save(checkpoints: Checkpoints, step: int) -> None:
    # Saving makes no run directory: that is for whoever creates a run.
    checkpoints.directory.parent.mkdir(exist_ok=True)
    roles = ["init", "best"] if step == 0 else ["best"] if step % 3 == 0 else []
    checkpoints.save(NewCheckpoint(step, state_at(step), SnapshotAt(step)), roles)


def demand_good(run_dir: Path, committed: int) -> int:
    """The step of the newest good checkpoint, after proving that nothing committed was lost or changed."""
    recovery = Checkpoints(run_dir).newest_good()
    assert recovery.refused == (), recovery.refused
    if recovery.checkpoint is None:
        assert committed < 0, f"step {committed} was committed and is lost"
        return -1
    manifest = recovery.checkpoint.manifest
    assert manifest.step >= committed, f"step {committed} was committed, the newest is {manifest.step}"
    assert fingerprint(recovery.checkpoint.state()) == fingerprint(state_at(manifest.step))
    snapshot = SnapshotAt(manifest.step)
    assert manifest.replay == snapshot.manifest
    for name, content in snapshot.contents.items():
        assert recovery.checkpoint.objects.read(name) == content
    # A `latest` that remembers a best score must find the `best` that earned it.
    assert Checkpoints(run_dir).load("best").manifest.step >= manifest.step - manifest.step % 3
    report = verify(Checkpoints(run_dir))
    assert report.ok, report
    return manifest.step


def demand_errno(error: OSError, wanted: int) -> None:
    assert error.errno == wanted, error


class Operations:
    """Counts the system calls that change files, and calls `at_limit` just before number `limit`."""

    NAMES = ("open", "write", "fsync", "replace", "unlink", "mkdir")

    def __init__(self, limit: int, at_limit: Callable[[], None]) -> None:
        self.count, self.limit, self.at_limit = 0, limit, at_limit
        self.original = {name: getattr(os, name) for name in self.NAMES}

    def __enter__(self) -> "Operations":
        for name in self.NAMES:
            setattr(os, name, self._wrapped(name))
        return self

    def __exit__(self, *_: object) -> None:
        for name, function in self.original.items():
            setattr(os, name, function)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """The original functions for a while, uncounted."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    def _wrapped(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == self.limit and name == "write":
                return self._torn_write(*arguments)
            if self.count == self.limit:
                self.at_limit()
            return self.original[name](*arguments, **options)

        return call

    def _torn_write(self, descriptor: int, data: memoryview) -> int:
        """Half of the data is written when the moment comes."""
        half = self.original["write"](descriptor, data[: len(data) // 2])
        self.at_limit()
        return int(half + self.original["write"](descriptor, data[half:]))


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def child_saves(run_dir: Path, start: int, report: int, limit: int | None, saves: int) -> None:
    """In a forked child: clean up like the owner of the lock, then save; each commit is written to `report`."""
    with Operations(limit or 0, kill_self):
        checkpoints = Checkpoints(run_dir)
        checkpoints.clean()
        for step in range(start, start + saves):
            save(checkpoints, step)
            os.writev(report, [step.to_bytes(8, "little")])
    os._exit(0)


def crash(run_dir: Path, start: int, limit: int | None, delay: float | None, saves: int) -> tuple[int, bool]:
    """Let a child save until it dies; returns the last step it committed and whether it was killed."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            child_saves(run_dir, start, theirs, limit, saves)
        finally:
            os._exit(1)
    os.close(theirs)
    told = b""
    if delay is not None:
        # Waiting for a signal that never comes is a plain delay: the kill falls wherever the child happens to be.
        select.select([], [], [], delay)
        os.kill(child, signal.SIGKILL)
    while piece := os.read(ours, 1 << 16):
        told += piece
    os.close(ours)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status)
    assert killed or os.WEXITSTATUS(status) == 0, "the saving process failed"
    return (int.from_bytes(told[-8:], "little") if told else start - 1), killed


def at_every_operation(run_dir: Path) -> dict[str, int]:
    """Kill before every single file operation of the first save, and of a later save with rotation and garbage."""
    # The page cache outlives a killed process; only the order matters here.
    os.fsync = lambda fd: None
    crashes, newest, limit = 0, -1, 1
    for warm_up in (0, 5):
        for step in range(newest + 1, newest + 1 + warm_up):
            save(Checkpoints(run_dir), step)
        base = run_dir.with_name("base")
        if run_dir.exists():
            shutil.copytree(run_dir, base)
        start, limit, killed = demand_good(run_dir, -1) + 1, 1, True
        while killed:
            shutil.rmtree(run_dir, ignore_errors=True)
            if base.exists():
                shutil.copytree(base, run_dir)
            committed, killed = crash(run_dir, start, limit, None, saves=1)
            newest = demand_good(run_dir, committed)
            crashes, limit = crashes + killed, limit + 1
        # Life goes on after a crash: the next owner cleans up and saves.
        save(Checkpoints(run_dir), newest + 1)
        newest = demand_good(run_dir, newest + 1)
    return {"crashes": crashes, "newest": newest}


def at_random(run_dir: Path, kills: int, seed: int) -> dict[str, int]:
    """Kill at random moments, in one run directory that goes through all of it."""
    stream = random.Random(seed)
    newest, crashes = -1, 0
    while crashes < kills:
        committed, killed = crash(run_dir, newest + 1, None, stream.uniform(0.0, 0.3), saves=10**6)
        newest = demand_good(run_dir, max(committed, newest))
        crashes += killed
    Checkpoints(run_dir).clean()
    assert verify(Checkpoints(run_dir)).orphaned == ()
    return {"crashes": crashes, "newest": newest}


def disk_full(mount: Path) -> dict[str, int]:
    """Fill a small file system: predicted by the state's size, and unpredicted through the replay."""
    run_dir = mount / "run"
    checkpoints = Checkpoints(run_dir)
    save(checkpoints, 0)
    save(checkpoints, 1)
    files = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    failures = {"predicted": 0, "hit": 0}
    for attempt in range(3):
        try:
            checkpoints.save(NewCheckpoint(2 + attempt, {"huge": torch.zeros(10**6)}))
        except ResourceError:
            failures["predicted"] += 1
        try:
            checkpoints.save(NewCheckpoint(2 + attempt, state_at(2), SnapshotAt(9, chunk_bytes=10**6)))
        except OSError as error:
            demand_errno(error, errno.ENOSPC)
            failures["hit"] += 1
        assert {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()} == files
        demand_good(run_dir, 1)
    save(checkpoints, 2)
    demand_good(run_dir, 2)
    return failures


def disk_full_at_every_size(mount: Path) -> dict[str, int]:
    """Leave less and less room, so that the disk runs full in objects, in manifests and in directories."""
    checkpoints_module.MARGIN_BYTES = -(10**9)  # type: ignore[attr-defined]  # no prediction: the disk itself must say no
    run_dir, ballast = mount / "run", mount / "ballast"
    checkpoints = Checkpoints(run_dir)
    save(checkpoints, 0)
    step, failures, saved = 0, 0, 0
    for room in range(0, 120_000, 4096):
        usage = shutil.disk_usage(mount)
        ballast.write_bytes(bytes(max(0, usage.free - room)))
        try:
            save(checkpoints, step + 1)
        except OSError as error:
            demand_errno(error, errno.ENOSPC)
            failures += 1
        else:
            step, saved = step + 1, saved + 1
        ballast.unlink()
        step = demand_good(run_dir, step)
    return {"failures": failures, "saved": saved}


def failing_fsync(run_dir: Path, saves: int) -> dict[str, int]:
    """Run below fiu-run, which lets fsync fail at random: a save says so, or it is committed."""
    checkpoints = Checkpoints(run_dir)
    committed, failures = -1, 0
    step = 0
    for _ in range(saves):
        try:
            save(checkpoints, step)
        except OSError as error:
            demand_errno(error, errno.EIO)
            failures += 1
        else:
            committed = step
        step = demand_good(run_dir, committed) + 1
    return {"failures": failures, "committed": committed}


def power_cut(workshop: Path, saves: int, every: int) -> dict[str, int]:
    """Copy the disk's image between two file operations, and look at what a machine would find after a power cut."""
    image, mount = workshop / "disk.img", workshop / "disk"
    mount.mkdir()
    with open(image, "wb") as file:
        file.truncate(24 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True)
    committed, cuts = -1, 0
    checkpoints = Checkpoints(mount / "run")

    def cut() -> None:
        nonlocal cuts
        with operations.suspended():
            after_the_cut(image, workshop / f"cut{cuts}", committed)
        cuts += 1
        operations.limit += every

    operations = Operations(1, cut)
    with operations:
        for step in range(saves):
            save(checkpoints, step)
            committed = step
    # The counter-proof: a file nobody fsynced is gone, so the copy is a power cut and not just a copy.
    (mount / "unsynced").write_bytes(bytes(100_000))
    survived = after_the_cut(image, workshop / "last", committed, "unsynced")
    subprocess.run(["umount", mount], check=True)
    return {"cuts": cuts, "committed": committed, "unsynced_survived": int(survived)}


def after_the_cut(image: Path, place: Path, committed: int, look_for: str = "") -> bool:
    """Mount a copy of the image and demand what was committed; says whether `look_for` survived with content."""
    place.mkdir()
    copy = place / "disk.img"
    subprocess.run(["cp", "--sparse=always", image, copy], check=True)
    subprocess.run(["e2fsck", "-p", copy], stdout=subprocess.DEVNULL, check=False)
    disk = place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-o", "loop", copy, disk], check=True)
    try:
        demand_good(disk / "run", committed)
        Checkpoints(disk / "run").clean()
        demand_good(disk / "run", committed)
        found = disk / look_for if look_for else None
        return found is not None and found.exists() and found.stat().st_size > 0
    finally:
        subprocess.run(["umount", disk], check=True)
        shutil.rmtree(place)


def main(experiment: str, place: str, *numbers: str) -> None:
    torch.set_num_threads(1)
    experiments: dict[str, Callable[..., dict[str, int]]] = {
        "operations": at_every_operation,
        "random": at_random,
        "full": disk_full,
        "sizes": disk_full_at_every_size,
        "fsync": failing_fsync,
        "power": power_cut,
    }
    found = experiments[experiment](Path(place), *map(int, numbers))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
