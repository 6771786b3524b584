"""A command as a process of its own, and what the kernel says it cost."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    wall: float
    cpu: float
    """User and system seconds of all threads."""
    peak_mb: float
    """Largest resident set. Linux begins to count at what the parent held when it started the process, so the parent
    must stay small."""
    out: str


def measured(command: Sequence[str | Path], environment: Mapping[str, str], log: Path) -> Usage:
    """Run to the end; raises with the last words of a command that fails. `log` is overwritten with its output."""
    with open(log, "w+b") as output:
        began = time.monotonic()
        process = subprocess.Popen(
            [str(part) for part in command], env=dict(environment), stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {said[-2000:]}")
    return Usage(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000, said)
