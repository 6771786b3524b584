"""Files from outside: only regular ones are opened, and a table is unfolded only if it fits into memory."""

import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

import psutil

KINDS = {
    stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip
CELL = 8
COPIES = 2
"""A table and what is made of it lie in memory side by side."""
LONGEST_CELL = 1000
"""Characters of a cell of text."""


class NotRegular(OSError):
    """There is something, but no file with an end; `strerror` says what it is."""


class TooLarge(ValueError):
    """Reading it would take more memory than there is."""


def open_regular(path: Path) -> BufferedReader:
    """The file at `path`, a link to it included; a pipe, which could wait for ever, or a device is NotRegular."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise NotRegular(0, f"it is {KINDS.get(kind, 'no file')}", str(path))
    return BufferedReader(FileIO(descriptor, "r"))


def check_file(path: Path) -> None:
    """The content must be able to fit into memory."""
    check_bytes(path.stat().st_size)


def check_table(file: Any) -> None:
    """A parquet file, opened: its cells, of which a few bytes can stand for billions, must fit into memory."""
    check_bytes(int(file.metadata.num_rows) * len(file.schema_arrow.names) * CELL)


def check_bytes(count: int) -> None:
    free = int(psutil.virtual_memory().available)
    if count * COPIES > free:
        raise TooLarge(f"it unfolds to {count:,} bytes, and {free:,} bytes of memory are free")
