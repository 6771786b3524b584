"""Where runs are: their names, how one comes into being, how one is found.

A directory appears under its name by a rename, complete with its config, so two jobs never share one and a kill never
leaves half of one; `runs/latest` points to the newest.
"""

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eigen2.errors import ConfigError, ResourceError
from eigen2.harness.leftovers import remove_leftovers, temporary_name
from eigen2.harness.listing import run_paths
from eigen2.harness.run import Run
from eigen2.store.disk import FAILING, NOT_WRITABLE
from eigen2.store.durable import make_directory, sync_directory
from eigen2.store.layout import check_layout

if TYPE_CHECKING:
    from eigen2.config import Config

LONGEST_NAME = 200
"""File systems take 255 bytes; -2, -3 and temporary names need some of them."""
NEW, LATEST = ".new-", ".latest-"
"""Beginnings of the names that a run and the link to it have before they are there."""


def create_run(config: "Config", free: Callable[[Path], bool] = lambda path: True) -> Run:
    """Claim the first free name, <alg>_<env>_seed<seed>, then with -2, -3, ..., and write the config there.

    `free` says whether a name that no run here has may be taken."""
    root = config.run.root.absolute()
    base = check_name(config)
    check_latest(root)
    try:
        make_directory(root)
        path = _publish(config, root, base, free)
        point_latest(path)
        sync_directory(root)
        remove_leftovers(root, NEW, LATEST)
    except OSError as error:
        if error.errno in NOT_WRITABLE or isinstance(error, NotADirectoryError | FileExistsError):
            raise ConfigError(
                f"run.root={root} cannot hold runs ({error.strerror}); choose another."
            ) from error
        if error.errno in FAILING:
            raise ResourceError(
                f"No run could be made in run.root={root} ({error.strerror}); mend the disk or make room, or choose "
                "another."
            ) from error
        raise
    return Run(path)


def check_name(config: "Config") -> str:
    """The name a new run asks for; refused when no directory can be called so, or when commands and tables that name it
    could not be read."""
    name = config.run.name or default_name(config)
    plain = name.isprintable() and name == name.strip() and not name.startswith((".", "-"))
    if not plain or "/" in name or name in ("", "latest"):
        raise ConfigError(f"run.name={name!r} cannot be a directory name; use letters, digits, _ and -.")
    if len(os.fsencode(name)) > LONGEST_NAME:
        raise ConfigError(
            f"run.name={name[:40]!r}... is {len(os.fsencode(name))} bytes long; at most {LONGEST_NAME} are possible."
        )
    return name


def _publish(config: "Config", root: Path, base: str, free: Callable[[Path], bool]) -> Path:
    new = Run(root / temporary_name(NEW))
    new.path.mkdir()
    try:
        new.write_config(config)
        return _claim(new.path, root, base, free)
    except BaseException:
        # On a disk that fails it stays, and is removed by whoever makes the next run.
        shutil.rmtree(new.path, ignore_errors=True)
        raise


def _claim(new: Path, root: Path, base: str, free: Callable[[Path], bool]) -> Path:
    """Rename `new` to the first free name; a name is taken when it is a directory with something in it, or a file."""
    number = 1
    while True:
        path = root / (base if number == 1 else f"{base}-{number}")
        number += 1
        if path.exists() or not free(path):
            continue
        try:
            os.rename(new, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            return path


def default_name(config: "Config") -> str:
    return f"{config.presets['alg']}_{config.env.label}_seed{config.seed}"


def find_run(name: str | None, root: Path, trusted: Sequence[str] | None = None) -> Run:
    """A run by directory or by name; the newest one when no name is given. `trusted` is code that it may import."""
    run = _found(name, root)
    run.typed = frozenset(trusted or ())
    return run


def _found(name: str | None, root: Path) -> Run:
    if name is None:
        check_latest(root)
        latest = root / "latest"
        if latest.exists():
            return _existing(latest.resolve())
        # The newest one was deleted or moved: the one before it is now the newest.
        left = run_paths(root)
        if not left:
            raise ConfigError(
                f"There is no run in {root.absolute()}; start one with `eigen2 train`, or name another directory with --log-dir."
            )
        return _existing(left[-1].resolve())
    if "://" in name:
        raise ConfigError(f"{name} is in a bucket; `eigen2 sync pull {name}` brings it here.")
    places = [path.resolve() for path in (Path(name), root / name) if path.is_dir()]
    for path in places:
        if Run(path).config_file.is_file():
            return _existing(path)
    if places:
        return _existing(places[0])
    raise ConfigError(f"No run called {name} here or in {root.absolute()}; `eigen2 runs` lists them.")


def named_run(
    arguments: Sequence[str], root: Path, trusted: Sequence[str] | None = None
) -> tuple[Run, list[str]]:
    """The one run that a command was given, the newest when none was; and its overrides."""
    names = [argument for argument in arguments if "=" not in argument]
    if len(names) > 1:
        raise ConfigError(f"Name one run, e.g. `eigen2 evaluate runs/NAME`, not {len(names)}.")
    overrides = [argument for argument in arguments if "=" in argument]
    return find_run(names[0] if names else None, root, trusted), overrides


def _existing(path: Path) -> Run:
    run = Run(path)
    if not run.config_file.is_file():
        raise ConfigError(
            f"{path} is not a run directory: it has no config.yaml; `eigen2 runs` lists the runs."
        )
    check_layout(path)
    return run


def check_latest(root: Path) -> None:
    """Refuse a file or a directory in the place of the link to the newest run; a copy that follows links leaves one."""
    latest = root / "latest"
    if os.path.lexists(latest) and not latest.is_symlink():
        raise ConfigError(
            f"{latest.absolute()} is not the link to the newest run but something of its own; rename it or move it away."
        )


def point_latest(path: Path) -> None:
    """From now on this run is the newest."""
    temporary = path.parent / temporary_name(LATEST)
    temporary.symlink_to(path.name)
    os.replace(temporary, path.parent / "latest")


def absolute(config: "Config") -> "Config":
    """Every path in it absolute."""
    root = Path(os.path.abspath(config.run.root.expanduser()))
    run = config.run.model_copy(update={"root": root})
    return config.model_copy(update={"run": run, "env": config.env.absolute()})
