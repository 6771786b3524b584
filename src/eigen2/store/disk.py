"""Room on the disk: how much there is, and a clear refusal before it is too late."""

import errno
import shutil
from pathlib import Path

from eigen2.errors import ResourceError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BROKEN = (
    errno.EIO,
    errno.ESTALE,
    errno.ENXIO,
    errno.ENODEV,
    errno.EREMOTEIO,
    errno.ETIMEDOUT,
    errno.ENOTCONN,
)
"""A disk that died, or a server that no longer answers."""
FAILING = (*FULL, *BROKEN)
NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Reasons why a disk refuses what is written to it."""
MARGIN_BYTES = 1 << 20
"""Left free for manifests, logs and directories."""


def free_bytes(path: Path) -> int:
    """Bytes this user may still write where `path` is, or will be."""
    place = path.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def ensure_room(path: Path, needed: int) -> None:
    """Raise ResourceError unless `needed` bytes can be written at `path`."""
    if needed > (free := free_bytes(path)):
        raise ResourceError(
            f"{path} needs {_size(needed)} of disk space and only {_size(free)} are free; "
            "free some space or choose another directory with run.root"
        )


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.2f} MB"
