"""The most memory that a process and its workers have had."""

import resource
import sys
from pathlib import Path

import psutil


def resident_bytes() -> int:
    """Of this process, now."""
    return int(psutil.Process().memory_info().rss)


def peak_bytes() -> int:
    """The most that this process has had resident, and what its present children have had beside the libraries that
    all share."""
    children = psutil.Process().children(recursive=True)
    return _own_peak() + sum(_private_peak(child.pid) for child in children)


def _own_peak() -> int:
    found = _status("self").get("VmHWM")
    if found is not None:
        return found
    # Kilobytes, except on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _private_peak(pid: int) -> int:
    status = _status(str(pid))
    return max(0, status.get("VmHWM", 0) - status.get("RssFile", 0))


def _status(pid: str) -> dict[str, int]:
    """Sizes that the kernel gives of a process, in bytes; empty where there is no such process or no such file."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    words = (line.split() for line in lines)
    return {w[0].removesuffix(":"): int(w[1]) * 1024 for w in words if len(w) == 3 and w[2] == "kB"}
