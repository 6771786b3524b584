"""`eigen2 doctor`: is this machine ready? Each check is one line: what was found, or what to do.

The last ones are a real run in a temporary directory: train, resume, verify, evaluate, by the commands a user gives.
"""

import fcntl
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigen2.errors import Eigen2Error
from eigen2.store.disk import free_bytes
from eigen2.store.durable import write_atomically

if TYPE_CHECKING:
    from eigen2.config import Config

EXTRAS = {
    "control": ("mujoco", "robot control tasks"),
    "sb3": ("stable_baselines3", "algorithms of Stable-Baselines3"),
    "cloud": ("obstore", "runs kept in a bucket"),
    "web": ("starlette", "the live page"),
}
"""Optional parts: a package of each, and what it is for."""
LITTLE_RAM, LITTLE_DISK = 1_000_000_000, 1_000_000_000
TRIAL_SECONDS = 120
TRIAL = ("alg.generations=1", "alg.population=4", "cloud.url=off")
"""The default run, cut short."""


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    found: str

    def line(self) -> str:
        return f"{'ok ' if self.ok else 'FIX'}  {self.name:10} {self.found}"


def examine(overrides: Sequence[str]) -> Iterator[Check]:
    """The checks, one after the other; they take under a minute."""
    from eigen2.config import load_config

    config = load_config(overrides)
    yield from _software(config)
    yield _memory()
    root = config.run.root.expanduser().absolute()
    yield from _disk(root)
    yield _cloud(config)
    yield from _trial()


def facts(checks: Sequence[Check]) -> dict[str, Any]:
    return {"ok": all(check.ok for check in checks), "checks": [asdict(check) for check in checks]}


def _software(config: "Config") -> Iterator[Check]:
    version = platform.python_version()
    yield Check("python", sys.version_info >= (3, 11), f"{version}" if sys.version_info >= (3, 11) else f"{version}; install 3.11 or newer")  # fmt: skip
    yield _torch(config)
    for extra, (module, purpose) in EXTRAS.items():
        there = util.find_spec(module) is not None
        text = f"{module} {metadata.version(module.replace('_', '-'))}" if there else f"absent; `pip install eigen2[{extra}]` brings {purpose}"  # fmt: skip
        yield Check(extra, True, text)


def _torch(config: "Config") -> Check:
    import torch

    found = f"torch {torch.__version__}, {config.threads} of {os.cpu_count()} threads"
    devices = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if config.device != "auto" and not devices[config.device]:
        return Check("torch", False, f"{found}; device={config.device} is not available; use device=auto")
    chosen = (
        next(name for name, there in devices.items() if there) if config.device == "auto" else config.device
    )
    name = torch.cuda.get_device_name(0) if chosen == "cuda" else chosen
    return Check("torch", True, f"{found}, device {name}")


def _memory() -> Check:
    from eigen2.memory.limits import in_use, limit

    most = limit()
    left = most.bytes - in_use()
    found = f"{left / 1e9:.1f} GB free of {most.bytes / 1e9:.1f} GB ({most.source})"
    return Check(
        "memory", left >= LITTLE_RAM, found if left >= LITTLE_RAM else f"{found}; training needs about 1 GB"
    )


def _disk(root: Path) -> Iterator[Check]:
    free = free_bytes(root)
    found = f"{free / 1e9:.1f} GB free for {root}"
    yield Check(
        "disk", free >= LITTLE_DISK, found if free >= LITTLE_DISK else f"{found}; free some, or set run.root"
    )
    place = root
    while not place.exists():
        place = place.parent
    yield _tried("files", lambda: _files_hold(place))


def _files_hold(place: Path) -> str:
    """Write durably, rename, lock: what a run asks of a file system."""
    with tempfile.TemporaryDirectory(dir=place, prefix=".doctor-") as directory:
        began = time.monotonic()
        write_atomically(Path(directory) / "file", b"x" * 4096)
        seconds = time.monotonic() - began
        with open(Path(directory) / "lock", "ab") as first, open(Path(directory) / "lock", "ab") as second:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return f"{place} writes durably ({seconds * 1e3:.0f} ms) and locks"
        raise OSError(f"{place} does not lock files; two trainers could share a run: choose another run.root")


def _cloud(config: "Config") -> Check:
    from eigen2.harness.syncing import located, opened

    def probe() -> str:
        location = located(config.cloud)
        if location is None:
            return "not used; cloud.url=gs://BUCKET/PREFIX keeps runs in a bucket"
        opened(location, config.cloud, config.run.root).probe()
        return f"{location.url}: an object was put, read and deleted"

    return _tried("cloud", probe)


def _trial() -> Iterator[Check]:
    """A small run, from its start to its report."""
    with tempfile.TemporaryDirectory(prefix="eigen2-doctor-") as directory:
        trained = _command("train", "train", *TRIAL, "--log-dir", directory, "--json")
        yield trained
        if not trained.ok:
            return
        run = str(Path(directory) / "latest")
        more = ("alg.generations=2", "--log-dir", directory, "--json")
        for name, *words in (
            ("resume", "train", "--resume", run, *more),
            ("verify", "verify", run, "--json"),
            ("exactness", "verify-resume", run, "--json"),
            ("evaluate", "evaluate", run, "--json"),
            ("report", "report", run, "--json"),
        ):
            yield _command(name, *words)


def _command(name: str, *words: str) -> Check:
    began = time.monotonic()
    command = [sys.executable, "-m", "eigen2", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Check(
            name,
            False,
            f"`eigen2 {words[0]}` took more than {TRIAL_SECONDS} s; the machine is very slow or stuck",
        )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
        return Check(name, False, f"`eigen2 {words[0]}` ended with {done.returncode}: {said}")
    json.loads(done.stdout)
    return Check(name, True, f"`eigen2 {words[0]}` in {time.monotonic() - began:.1f} s")


def _tried(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, True, check())
    except (Eigen2Error, OSError) as error:
        return Check(name, False, str(error))
