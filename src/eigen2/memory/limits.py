"""How much memory this process may use, and how much of that is used.

    limits()           cgroups, machine and rlimits, each with its name
    limit()            the smallest of them
    in_use(limit)      bytes that count against it now

What counts differs: a cgroup counts all its processes and their page cache, which the kernel gives back when it is
needed and which is therefore left out; a machine counts what every process has; an rlimit counts addresses.
"""

import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

UNLIMITED = 2**60
"""Version 1 writes a huge number where there is no limit."""


@dataclass(frozen=True)
class Limit:
    bytes: int
    source: str
    """For people: `cgroup /jobs/12`, `machine`, `ulimit -v` or `ulimit -d`."""
    group: Path | None = None
    """Directory of the cgroup that sets it."""


PROC = Path("/proc/self")
"""Where the kernel describes this process."""


def limits(proc: Path = PROC) -> list[Limit]:
    """All that bound this process; more than one may be near."""
    return [Limit(int(psutil.virtual_memory().total), "machine"), *_cgroups(proc), *_rlimits()]


def limit(proc: Path = PROC) -> Limit:
    """The smallest limit of this process."""
    return min(limits(proc), key=lambda found: found.bytes)


def in_use(of: Limit | None = None) -> int:
    """Bytes that count against a limit, by default against the smallest one."""
    found = of or limit()
    if found.group is not None:
        return _group_bytes(found.group)
    if found.source == "machine":
        memory = psutil.virtual_memory()
        return int(memory.total - memory.available)
    process = psutil.Process()
    return int(process.memory_info().vms if found.source == "ulimit -v" else process.memory_info().data)


def _rlimits() -> Iterator[Limit]:
    for number, name in ((resource.RLIMIT_AS, "ulimit -v"), (resource.RLIMIT_DATA, "ulimit -d")):
        soft, _ = resource.getrlimit(number)
        if soft != resource.RLIM_INFINITY:
            yield Limit(soft, name)


def _cgroups(proc: Path) -> Iterator[Limit]:
    """A limit of a group above counts as well: every level is asked."""
    try:
        lines = (proc / "cgroup").read_text(encoding="utf-8").splitlines()
        mounts = (proc / "mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        place = _mounted(mounts, "cgroup" if controllers else "cgroup2", path)
        if place is None:
            continue
        top, group = place
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        for level in (group, *group.parents):
            value = _number(level / name)
            if value is not None and value < UNLIMITED:
                yield Limit(value, f"cgroup /{level.relative_to(top)}".removesuffix("."), level)
            if level == top:
                break


def _mounted(mounts: list[str], kind: str, path: str) -> tuple[Path, Path] | None:
    """Where a hierarchy is mounted, and the directory of a group in it.

    In a container the mount may show only a part of the hierarchy, which begins at the mount's root.
    """
    for line in mounts:
        before, _, after = line.partition(" - ")
        found, _, options = after.split(" ", 2)
        if found != kind or (kind == "cgroup" and "memory" not in options.split(" ")[-1].split(",")):
            continue
        root, top = before.split(" ")[3:5]
        inside = os.path.relpath(path, root)
        group = Path(top) if inside.startswith("..") else Path(os.path.normpath(Path(top) / inside))
        return Path(top), group if group.is_dir() else Path(top)
    return None


def _group_bytes(group: Path) -> int:
    old = (group / "memory.usage_in_bytes").exists()
    used = _number(group / ("memory.usage_in_bytes" if old else "memory.current")) or 0
    prefix = "total_" if old else ""
    cached = {f"{prefix}active_file", f"{prefix}inactive_file"}
    words = (line.split() for line in (group / "memory.stat").read_text(encoding="utf-8").splitlines())
    return max(0, used - sum(int(value) for name, value in words if name in cached))


def _number(path: Path) -> int | None:
    """None where there is no such file, or where it says `max`."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
