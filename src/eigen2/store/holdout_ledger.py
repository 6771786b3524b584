"""The ledger of uses of held-out data: one file of the user's, outside every run, to which lines are only added.

A holdout is fresh once, whichever run, seed or policy opens it, so the count cannot live in a run. Each line is one JSON
object with a checksum: a `holdout` line describes held-out data, once; a `use` line names it. What the words in them
mean is the business of whoever records them. Writers of several processes and users take turns by a lock; a use is on
the disk before `record` returns, or an error says why not.
"""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eigen2.errors import DataError, Eigen2Error, ResourceError
from eigen2.store.durable import make_directory, sync_directory, write_all

FORMAT = 1
VARIABLE = "EIGEN2_LEDGER"
NAME = "holdout-uses.jsonl"


class HoldoutLedger:
    """The file at `path`, made when the first use is recorded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def place(self) -> str:
        return str(self.path)

    def record(self, use: Mapping[str, Any], holdout: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
        """Write down a use of the data that `holdout` describes (its `id` names it; known ones are not repeated).

        Returns every line, oldest first, the present use last, and the number of damaged lines that were passed over.
        """
        try:
            with self._locked() as descriptor:
                content = _content(descriptor)
                lines, damaged = _parsed(content)
                known = any(line["kind"] == "holdout" and line["id"] == holdout["id"] for line in lines)
                new = [] if known else [{"kind": "holdout", **holdout}]
                stamp = {"use": secrets.token_hex(8), "time": round(time.time(), 3)}
                new.append({"kind": "use", **stamp, "holdout": holdout["id"], **use})
                torn = b"\n" if content and not content.endswith(b"\n") else b""
                _append(descriptor, torn + b"".join(_spelled(line) for line in new), len(content))
        except OSError as error:
            raise self._closed(error) from error
        return [*lines, *new], damaged

    @contextmanager
    def _locked(self) -> Iterator[int]:
        make_directory(self.path.parent)
        while True:
            fresh = not self.path.exists()
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                # Deleted while this process waited: the lock is on a file that nobody will find.
                if not _is_at(descriptor, self.path):
                    continue
                if fresh:
                    sync_directory(self.path.parent)
                yield descriptor
                return
            finally:
                os.close(descriptor)

    def _closed(self, error: OSError) -> Eigen2Error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = "free some space" if full else "make it writable"
        return (ResourceError if full else DataError)(
            f"The holdout stays closed: its use cannot be written into the ledger {self.path} "
            f"({error.strerror or error}); {advice}, or name another file with {VARIABLE}."
        )


def user_ledger() -> HoldoutLedger:
    """The user's own: $EIGEN2_LEDGER, or a file in the data directory of the XDG specification."""
    named = os.environ.get(VARIABLE, "")
    if named:
        path = Path(named).expanduser().absolute()
        return HoldoutLedger(path / NAME if path.is_dir() else path)
    home = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not home.is_absolute():
        try:
            home = Path.home() / ".local" / "share"
        except RuntimeError as error:
            raise DataError(
                f"There is no home directory for the ledger of holdout uses; name a file with {VARIABLE}."
            ) from error
    return HoldoutLedger(home / "eigen2" / NAME)


def _content(descriptor: int) -> bytes:
    pieces, offset = [], 0
    while piece := os.pread(descriptor, 1 << 20, offset):
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)


def _append(descriptor: int, content: bytes, size: int) -> None:
    """All of it, on the disk; a part that a full disk took is taken back."""
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _spelled(line: Mapping[str, Any]) -> bytes:
    body = {"format": FORMAT, **line}
    return (_text({**body, "check": _checksum(body)}) + "\n").encode()


def _parsed(content: bytes) -> tuple[list[dict[str, Any]], int]:
    lines, damaged = [], 0
    for text in content.splitlines():
        if not text.strip():
            continue
        line = _line(text)
        if line is None:
            damaged += 1
        else:
            lines.append(line)
    return lines, damaged


def _line(text: bytes) -> dict[str, Any] | None:
    """One line of the ledger; None when it is no longer what was written, or of a later version."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        return None
    check = found.pop("check", None)
    needed = {"holdout": ("id",), "use": ("use", "holdout")}.get(str(found.get("kind")))
    whole = needed is not None and all(isinstance(found.get(key), str) for key in needed)
    return found if whole and check == _checksum(found) else None


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(body).encode()).hexdigest()[:16]


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, allow_nan=False, separators=(",", ":"), sort_keys=True)
