"""`export`: a run's policies as files for people who do not have this package's run directory.

The algorithm writes them into a directory of their own, which appears under its name by one rename, so an export is
complete or not there. An export of the same run is replaced; anything else that stands in the way is left alone.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from eigen2.config import fingerprint
from eigen2.errors import ConfigError, DamagedStateError
from eigen2.harness.evaluating import opened
from eigen2.harness.leftovers import remove_leftovers, temporary_name
from eigen2.harness.run import Run
from eigen2.store.bounded_json import load_table
from eigen2.store.checkpoints import Checkpoint
from eigen2.store.disk import NOT_WRITABLE, ensure_room
from eigen2.store.durable import sync_directory
from eigen2.store.layout import FACTS_LIMIT
from eigen2.store.plain_files import check_kind, read_plain
from eigen2.store.state import state_bytes

NEW = ".export-"
"""Beginning of the name that an export has before it is complete."""
RECORD = "export.json"
EXPORTED = ("init", "best", "latest", "final")


def export_run(
    run: Run, target: Path | None, say: Callable[[str], None], overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """Write the files and the card; returns what is there."""
    states = _states(run, say)
    if not states:
        raise ConfigError(f"{run.path} has no checkpoint yet; there is nothing to export.")
    directory = run.path / "export" if target is None else target.expanduser().resolve()
    if target is None:
        check_kind(directory, directory=True)
    same = {"format": 2, "name": run.name, "config": fingerprint(run.read_config(to_open=False))}
    _refuse_others(directory, run, same)
    ensure_room(directory, sum(state_bytes(state) for state in states.values()))
    new = _make_directory(directory)
    try:
        with opened(run, say, overrides) as experiment:
            facts = experiment.export(new, states)
        record = json.dumps({**same, "written": sorted(p.name for p in new.iterdir()), **facts}, indent=2)
        (new / RECORD).write_text(record + "\n", encoding="utf-8")
        _sync(new)
        _publish(new, directory)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return {"run": str(run.path), "directory": str(directory), **facts}


def _states(run: Run, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """Of every checkpoint that can be read; of the others is said why not."""
    checkpoints, states, damage = run.checkpoints, dict[str, dict[str, Any]](), list[DamagedStateError]()
    for name in EXPORTED:
        if name in checkpoints.names():
            try:
                states[name] = checkpoints.read(name, Checkpoint.state)[1]
            except DamagedStateError as error:
                damage.append(error)
                say(f"checkpoint '{name}' is left out: {error}")
    if damage and not states:
        raise damage[0]
    return states


def _make_directory(directory: Path) -> Path:
    new = directory.parent / temporary_name(NEW)
    try:
        new.mkdir(parents=True)
        remove_leftovers(directory.parent, NEW)
    except OSError as error:
        if error.errno not in (*NOT_WRITABLE, errno.ENOTDIR, errno.EEXIST):
            raise
        raise ConfigError(
            f"{directory} cannot be written ({error.strerror}); name another with --to."
        ) from error
    return new


def _refuse_others(directory: Path, run: Run, same: dict[str, Any]) -> None:
    """Only an earlier export of the same run, with nothing added to it, may be replaced."""
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return
    try:
        record = load_table(read_plain(directory / RECORD, FACTS_LIMIT))
        ours = record.items() >= same.items()
        unchanged = {path.name for path in directory.iterdir()} <= {RECORD, *record["written"]}
    except (OSError, ValueError, LookupError, AttributeError, TypeError, DamagedStateError):
        ours = unchanged = False
    if not (ours and unchanged):
        raise ConfigError(
            f"{directory} exists and is not an export of {run.name}; name another directory with --to."
        )


def _sync(directory: Path) -> None:
    for path in directory.iterdir():
        with open(path, "rb") as written:
            os.fsync(written.fileno())
    sync_directory(directory)


def _publish(new: Path, directory: Path) -> None:
    """`new` becomes `directory`; an earlier export is moved aside first and removed last."""
    if not directory.exists():
        os.rename(new, directory)
    else:
        aside = directory.parent / temporary_name(NEW)
        os.rename(directory, aside)
        os.rename(new, directory)
        shutil.rmtree(aside)
    sync_directory(directory.parent)
