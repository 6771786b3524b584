"""Which files of a run directory belong into a bucket, and which keys of a bucket may become files.

A bucket is a stranger's input: a key becomes a path only if every part of it is a plain name.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from eigen2.store.durable import TEMPORARY
from eigen2.store.layout import PHASE
from eigen2.store.retention import NAMES

FACTS = ("config.yaml", "run.json", "evaluations.jsonl")
"""Files that a resume or a result needs; they are never excluded."""
PINS = "uploads-"
"""Prefix of the local files that say what is queued for upload."""
LOCKS = ("lock", "objects.lock")
TRACKING = "tracking.json"
"""How far trackers have come with the files that are here; another machine tells them everything again."""
ELSEWHERE = ("objects", "checkpoints", "tails")
"""Directories that have ways of their own into the bucket."""
LONGEST_PART, LONGEST_KEY = 255, 1000
MANIFESTS = {f"checkpoints/{name}.json": name for name in NAMES}
_OBJECT = re.compile(r"objects/([0-9a-f]{2})/([0-9a-f]{62})")


def object_key(name: str) -> str:
    return f"objects/{name[:2]}/{name[2:]}"


def object_name(key: str) -> str | None:
    """The hash of the object that lies under `key`; None for any other key."""
    found = _OBJECT.fullmatch(key)
    return found[1] + found[2] if found else None


def is_plain(key: str) -> bool:
    """Whether a key can be a path below a directory, the same on every machine, and stays there."""
    parts = key.split("/")
    return len(key) <= LONGEST_KEY and all(
        part.isprintable()
        and 0 < len(part.encode()) <= LONGEST_PART
        and not part.endswith(".")
        and "\\" not in part
        for part in parts
    )


def other_files(directory: Path, exclude: Sequence[str]) -> Iterator[str]:
    """Keys of everything beside objects and manifests: facts, logs, and things people open.

    Links are not followed, and what is no file (a pipe, a socket) is not read.
    """
    for place, below, files in os.walk(directory):
        here = Path(place).relative_to(directory).as_posix()
        prefix = "" if here == "." else f"{here}/"
        if not prefix:
            below[:] = [name for name in below if name not in ELSEWHERE]
        below.sort()
        for name in sorted(files):
            key = f"{prefix}{name}"
            if _is_temporary(key) or key in (TRACKING, PHASE) or not _is_file(directory / key):
                continue
            if key in FACTS or not excluded(key, exclude):
                yield key


def excluded(key: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern names the file or a directory above it: `*.html`, `tensorboard/`, `logs/*.txt`."""
    parts = key.split("/")
    heads = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    plain = [pattern.rstrip("/") for pattern in patterns]
    return any(fnmatchcase(name, pattern) for pattern in plain for name in (*heads, *parts))


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _is_temporary(key: str) -> bool:
    return key.rpartition("/")[2].startswith(TEMPORARY) or key.startswith(PINS)
