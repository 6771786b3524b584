"""What is damaged is kept: a second name below `damaged/` before anything takes its place."""

import errno
import os
import shutil
from pathlib import Path

from eigen2.store.durable import make_subdirectory, sync_directory
from eigen2.store.layout import DAMAGED
from eigen2.store.plain_files import check_kind

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EXDEV, errno.EMLINK)


def keep_aside(run_dir: Path, path: Path) -> Path | None:
    """Give a file of a run a name below `damaged/`, durably; it stays where it is. None when there is no such file."""
    if not path.is_file() or path.is_symlink():
        return None
    directory = run_dir
    for part in (DAMAGED, *path.parent.relative_to(run_dir).parts):
        directory /= part
        if not check_kind(directory, directory=True):
            make_subdirectory(directory)
    wanted = directory / path.name
    target, number = wanted, 1
    while os.path.lexists(target):
        if os.path.samestat(target.lstat(), path.lstat()):
            return target
        number += 1
        target = wanted.with_name(f"{wanted.name}.{number}")
    try:
        os.link(path, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(path, target)
    sync_directory(target.parent)
    return target


def move_aside(run_dir: Path, path: Path) -> None:
    """The same, and it is no longer where it was."""
    if keep_aside(run_dir, path) is not None:
        path.unlink()
        sync_directory(path.parent)
