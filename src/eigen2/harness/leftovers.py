"""Directories and links under temporary names: what a killed process left is removed, what a live one works on is not.

The name says which process it belongs to: its number, when it began, and the running system where that number means
something. What another machine left, or an earlier version, is removed when it is a day old: such things live seconds.
"""

import hashlib
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path

DAY = 86_400.0
_OWNER = re.compile(r"(?P<pid>[0-9]{1,10})-(?P<began>[0-9]{1,15})-(?P<system>[0-9a-f]{12})-[0-9a-f]{16}")


def temporary_name(prefix: str) -> str:
    """A new name that begins with `prefix` and says whose it is."""
    return f"{prefix}{os.getpid()}-{_began(os.getpid())}-{_system()}-{secrets.token_hex(8)}"


def leftovers(directory: Path, *prefixes: str) -> list[Path]:
    """What dead processes left in `directory` under names that begin with one of `prefixes`."""
    found = []
    for path in directory.iterdir():
        prefix = next((known for known in prefixes if path.name.startswith(known)), None)
        with suppress(OSError):
            if prefix is not None and _is_abandoned(path, path.name.removeprefix(prefix)):
                found.append(path)
    return found


def remove_leftovers(directory: Path, *prefixes: str) -> list[str]:
    """Remove them; returns the names of those that are gone."""
    removed = []
    for path in leftovers(directory, *prefixes):
        # One that cannot be removed is somebody else's, or on a disk that fails: it is in nobody's way.
        with suppress(OSError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            removed.append(path.name)
    return removed


def _is_abandoned(path: Path, owner: str) -> bool:
    found = _OWNER.fullmatch(owner)
    if found is not None and found["system"] == _system():
        return _began(int(found["pid"])) != int(found["began"])
    return time.time() - path.lstat().st_mtime > DAY


def _began(pid: int) -> int | None:
    """When a process of this system began, in hundredths of a second; None when there is none of that number."""
    import psutil

    try:
        return round(psutil.Process(pid).create_time() * 100)
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        return -1


def _system() -> str:
    # Imported here: only who makes or removes something asks.
    from eigen2.cloud.lease import running_system

    return hashlib.sha256(running_system().encode()).hexdigest()[:12]
