"""What an evaluation found, as files that people open: RUN/evaluations/TIME-SPLIT/*.csv, the newest ones only.

The log and the objects of a run keep every evaluation; these are copies. `evaluation.json` is written last: a directory
that has it is complete.
"""

import calendar
import json
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy.typing as npt

from eigen2.harness.journal import plain
from eigen2.harness.run import Run
from eigen2.harness.tables import to_csv, to_parquet
from eigen2.store.durable import make_subdirectory, sync_directory, write_atomically
from eigen2.store.layout import EVALUATIONS

if TYPE_CHECKING:
    from eigen2.evaluation.result import Evaluation

KEPT: Final = 20
"""Evaluations whose files are kept."""
LONGEST_CSV: Final = 100_000
"""Rows; longer tables are written as parquet."""
OURS = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z-[a-z_]+")
CLOCK: Final = "%Y-%m-%dT%H-%M-%S"


def write_files(run: Run, evaluation: "Evaluation") -> Path:
    """The tables and the facts of an evaluation; returns their directory."""
    run.check_place()
    home = run.path / EVALUATIONS
    make_subdirectory(home)
    target = _new(home, _kind(evaluation.facts))
    for name, table in (evaluation.tables or evaluation.series).items():
        _write(target, name, table)
    text = json.dumps(plain(evaluation.facts), indent=2, allow_nan=False) + "\n"
    write_atomically(target / "evaluation.json", text.encode())
    _forget_oldest(home)
    return target


def _write(target: Path, name: str, table: Mapping[str, npt.NDArray[Any]]) -> None:
    rows = max((len(column) for column in table.values()), default=0)
    if rows > LONGEST_CSV:
        write_atomically(target / f"{name}.parquet", to_parquet(table))
    else:
        write_atomically(target / f"{name}.csv", to_csv(table))


def _kind(facts: Mapping[str, Any]) -> str:
    """The split, where there is one, as a part of a name."""
    return re.sub("[^a-z_]", "_", str(facts.get("split", "evaluation")).lower()) or "evaluation"


def _new(home: Path, kind: str) -> Path:
    """A directory that sorts after all others, made here."""
    others = [_moment(path.name) for path in home.iterdir() if OURS.fullmatch(path.name)]
    moment = max(time.time_ns() // 1_000_000, *(other + 1 for other in others), 0)
    while True:
        path = home / f"{time.strftime(CLOCK, time.gmtime(moment // 1000))}.{moment % 1000:03}Z-{kind}"
        try:
            path.mkdir()
        except FileExistsError:
            moment += 1
            continue
        sync_directory(home)
        return path


def _moment(name: str) -> int:
    """The milliseconds that one of our names says; 0 for a time that never was."""
    clock, _, rest = name.partition(".")
    try:
        return calendar.timegm(time.strptime(clock, CLOCK)) * 1000 + int(rest[:3])
    except ValueError:
        return 0


def _forget_oldest(home: Path) -> None:
    """Only directories that are called as ours are touched."""
    ours = sorted(
        path
        for path in home.iterdir()
        if OURS.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    )
    for path in ours[: max(0, len(ours) - KEPT)]:
        shutil.rmtree(path, ignore_errors=False)
    sync_directory(home)
