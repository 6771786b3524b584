"""Machines that train runs into a bucket: a directory of runs each, commands in processes of their own."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_lab import ORDERS, Done, Lab, Started
from proxy import Proxy, Request
from servers import Served

from eigen2.harness.run import Run
from eigen2.store.integrity import verify

NAME = "run"
QUICK = ("cloud.drain_seconds=60", "cloud.timeout_seconds=5")
RCLONE = Path(sys.executable).parent / "rclone"
ROLES = ("init", "best", "previous", "latest", "final")


@dataclass(frozen=True)
class Machine:
    """One directory of runs, and the store that its commands find."""

    lab: Lab
    root: Path
    served: Served
    name: str = NAME

    @property
    def run(self) -> Path:
        return self.root / self.name

    @property
    def url(self) -> str:
        return f"{self.served.url}/{self.name}"

    def start(self, *words: str | Path, **options: Any) -> Started:
        environment = {**self.served.environment, **options.pop("environment", {})}
        return self.lab.start(*words, environment=environment, **options)

    def run_command(self, *words: str | Path, **options: Any) -> Done:
        return self.start(*words, **options).wait()

    def begin(self, *more: str, **options: Any) -> Started:
        """A new run that goes to the store."""
        self.root.mkdir(parents=True, exist_ok=True)
        words = (
            *ORDERS,
            *QUICK,
            f"cloud.url={self.served.url}",
            f"run.root={self.root}",
            f"run.name={self.name}",
        )
        return self.start("train", *words, *more, **options)

    def train(self, *more: str, **options: Any) -> Done:
        return self.begin(*more, **options).wait()

    def resume(self, what: str | Path | None = None, *more: str, **options: Any) -> Done:
        return self.run_command(
            "train", "--resume", what or self.run, f"run.root={self.root}", *more, **options
        )

    def sync(self, verb: str, *words: str | Path, **options: Any) -> Done:
        return self.run_command("sync", verb, *words, "--root", self.root, **options)

    def status(self, *more: str) -> dict[str, Any]:
        done = self.sync("status", self.run, "--json", *more)
        facts: dict[str, Any] = json.loads(done.out)
        return facts

    def fingerprint(self) -> str:
        done = self.lab.run("fingerprint", self.run)
        assert done.code == 0, done.err
        return done.out


def good(done: Done) -> Done:
    assert done.code == 0, done.err + done.out
    return done


def is_sentence(done: Done, code: int) -> str:
    """A failure as it shall be: the exit code, one sentence on stderr, and no trace; returns all that was said."""
    said = done.out + done.err
    assert done.code == code, said
    assert "Traceback" not in said, said
    assert done.err.count("eigen2: ") == 1, said
    return said


def files(directory: Path) -> dict[str, bytes]:
    """Content of every file by its path."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def steps(run: Path) -> dict[str, int]:
    """Step of each checkpoint in a directory, every byte of which verifies; nothing else lies there."""
    report = verify(Run(run).checkpoints)
    assert report.ok, report
    assert report.orphaned == (), report
    return {name: Run(run).checkpoints.load(name).manifest.step for name in report.manifests}


def whole(stored: Path) -> int:
    """The stored image of a run is whole at some step, whatever an interrupted batch left beside it; that step."""
    report = verify(Run(stored).checkpoints)
    assert report.damaged == (), report
    # A manifest that was not put, or not yet, is missing beside the others; nothing that they name is.
    assert all("the run had a checkpoint" in sentence for sentence in report.missing), report
    loaded = [Run(stored).checkpoints.load(name).manifest.step for name in report.manifests]
    return max(loaded, default=-1)


def rclone(*words: str | Path, served: Served) -> subprocess.CompletedProcess[str]:
    """The independent client; `:s3:BUCKET/KEY` names the store."""
    connection = served.environment.get("AWS_ENDPOINT_URL", "")
    return subprocess.run(
        [
            RCLONE,
            "--config",
            "",
            "--s3-provider",
            "Other",
            "--s3-env-auth",
            "--s3-endpoint",
            connection,
            *words,
        ],
        env={**served.environment, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def remote(served: Served, key: str = "") -> str:
    return f":s3:{served.url.removeprefix('s3://')}" + (f"/{key}" if key else "")


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process is about to do; the time limit of the tests ends it."""
    while not condition():
        threading.Event().wait(0.02)


class Gate:
    """Holds the requests that match, from the `count`-th on, until it is opened; those that were held are cut then."""

    def __init__(self, proxy: Proxy, method: str, part: str, count: int = 1) -> None:
        self.proxy, self.method, self.part, self.left = proxy, method, part, count
        self.reached, self._open, self._lock = threading.Event(), threading.Event(), threading.Lock()
        proxy.watch = self._watch

    def open(self) -> None:
        self.proxy.watch = lambda request: None
        self._open.set()

    def _watch(self, request: Request) -> None:
        if request.method != self.method or self.part not in request.path:
            return
        with self._lock:
            self.left -= 1
            if self.left > 0:
                return
        self.reached.set()
        self._open.wait()
        raise ConnectionResetError("held until the client was gone")
