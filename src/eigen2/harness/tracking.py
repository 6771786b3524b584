"""Trackers work in a process of their own (`tracker_process.py`): whatever they wait for, load, print or die of, no step is
stopped or delayed by it, and at the end of a run they are given a minute."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from eigen2.config import Config
from eigen2.harness.journal import Journal
from eigen2.harness.run import Run
from eigen2.harness.tracker_process import DONE, MARK, PATIENCE, STOPPED
from eigen2.harness.trust import WANDB, may_send_to_wandb

LAST_WORDS = 300


class Tracking:
    def __init__(
        self, run: Run, config: Config, journal: Journal, step: int, say: Callable[[str], None]
    ) -> None:
        self._journal, self._say, self._words = journal, say, ""
        sends = may_send_to_wandb()
        if WANDB in config.track and not sends:
            self._tell(
                f"tracking: {run.config_file} names wandb, and you have not: it stays offline, in {run.path / WANDB}. "
                f"`eigen2 train --resume {run.path} track=wandb` sends it."
            )
        self._process = subprocess.Popen(
            [sys.executable, "-m", "eigen2.harness.tracker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(os.environ) if sends else os.environ | {"WANDB_MODE": "offline"},
            # A signal to the run is the run's: what trackers have to do then, they are told.
            start_new_session=True,
        )
        order = {
            "directory": str(run.path),
            "name": run.name,
            "id": run.identify(),
            "config": config.model_dump(mode="json"),
            "trackers": list(config.track),
            "step": step,
            "parent": os.getpid(),
        }
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        os.set_blocking(self._process.stdin.fileno(), False)
        self._listener = threading.Thread(target=self._listen, name="tracking", daemon=True)
        self._listener.start()

    def stepped(self) -> None:
        self._write("\n")

    def close(self, done: bool) -> None:
        """Have the rest sent; `done` when the run is."""
        self._write(DONE if done else STOPPED)
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            code = self._process.wait(PATIENCE + 5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._listener.join()
        if code:
            self._tell(
                f"tracking: it ended before it had sent the last steps ({self._words or f'exit code {code}'}); a resume sends "
                "what is missing."
            )

    def _write(self, word: str) -> None:
        """A process that does not read has enough to do; the end of one that has died is noticed elsewhere."""
        assert self._process.stdin is not None
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._process.stdin.fileno(), word.encode())

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                text = line.decode(errors="replace").strip()
                if text.startswith(MARK.strip()):
                    self._tell(str(json.loads(text.removeprefix(MARK.strip()))))
                elif text:
                    self._words = text[:LAST_WORDS]

    def _tell(self, message: str) -> None:
        self._journal.event("tracker", message)
        self._say(message)


@contextmanager
def tracking(
    run: Run, config: Config, journal: Journal, step: int, say: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """Inside, the trackers of `config` follow an owned run that resumes after `step`; the yielded function says that there
    is news."""
    if not config.track:
        yield lambda: None
        return
    try:
        found = Tracking(run, config, journal, step, say)
    except OSError as error:
        message = f"tracking: its process could not be started ({error}); training continues without it."
        journal.event("tracker", message)
        say(message)
        yield lambda: None
        return
    done = False
    try:
        yield found.stepped
        done = True
    finally:
        found.close(done)
