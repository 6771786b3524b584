"""Ends of logs that travel apart from their beginnings.

A log grows with every step; sending it whole each time would send its beginning again and again. A tail holds the
bytes of one log from an offset on: `tails/metrics.jsonl.000000001234`. Whoever opens a run that holds tails joins them
to their logs first.
"""

import re
import shutil
from pathlib import Path

from eigen2.store.durable import append
from eigen2.store.plain_files import read_plain

DIRECTORY = "tails"
TAIL_LIMIT = 1 << 30
"""Bytes of one tail."""
_NAME = re.compile(r"(?P<log>[a-z_]{1,32}\.jsonl)\.(?P<offset>[0-9]{12})")


def tail_name(log: str, offset: int) -> str:
    return f"{DIRECTORY}/{log}.{offset:012d}"


def parse_tail(key: str) -> tuple[str, int] | None:
    """The log and the offset of a tail; None for anything else."""
    directory, _, name = key.partition("/")
    found = _NAME.fullmatch(name)
    return (found["log"], int(found["offset"])) if directory == DIRECTORY and found else None


def join_tails(run_dir: Path) -> None:
    """Append to each log the tails that continue where it ends; needs the run's lock."""
    directory = run_dir / DIRECTORY
    if not directory.is_dir() or directory.is_symlink():
        return
    for path in sorted(directory.iterdir()):
        tail = parse_tail(f"{DIRECTORY}/{path.name}")
        if tail is not None and path.is_file() and not path.is_symlink():
            _join(run_dir / tail[0], tail[1], read_plain(path, TAIL_LIMIT))
    shutil.rmtree(directory)


def _join(log: Path, offset: int, content: bytes) -> None:
    """One that is already part of the log changes nothing; one after a gap would make nonsense and is left out."""
    size = log.stat().st_size if log.exists() else 0
    if offset > size or offset + len(content) <= size:
        return
    append(log, content[size - offset :])
