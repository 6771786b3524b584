"""Champions by name: of a run directory, or of a directory that `export` wrote."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

from eigen2.algorithms import registry
from eigen2.algorithms.contract import CHAMPION, Champion, Decision, Question
from eigen2.errors import ConfigError, DamagedStateError
from eigen2.harness.directory import find_run
from eigen2.harness.evaluating import opened
from eigen2.harness.run import Run


def load_champion(path: str | Path) -> Champion:
    """What `eigen2.load` gives."""
    return champion_of(str(Path(path).expanduser()), Path("runs"), lambda sentence: None)


def champion_of(
    name: str | None, root: Path, say: Callable[[str], None], overrides: list[str] | None = None
) -> Champion:
    """`overrides` may say where the data of a run lies now."""
    directory = None if name is None else Path(name).expanduser()
    if directory is not None and (directory / CHAMPION).is_file():
        if overrides:
            raise ConfigError(f"{directory} is an export; it has no settings to override ({overrides[0]}).")
        return registry.algorithm(_algorithm(directory)).load(directory)
    if directory is not None and (directory / "export.json").is_file():
        raise ConfigError(f"{directory} was exported by an earlier version; export the run again.")
    return champion_of_run(find_run(name, root), say, overrides or [])


def champion_of_run(run: Run, say: Callable[[str], None], overrides: list[str]) -> Champion:
    with opened(run, say, overrides) as experiment:
        return experiment.champion()


def decide_named(
    arguments: list[str], root: Path, question: Question, say: Callable[[str], None]
) -> Decision:
    names = [argument for argument in arguments if "=" not in argument]
    if len(names) > 1:
        raise ConfigError("Name one run or one export, e.g. `eigen2 decide runs/NAME`.")
    overrides = [argument for argument in arguments if "=" in argument]
    return champion_of(names[0] if names else None, root, say, overrides).decide(question)


def csv_text(decision: Decision) -> str:
    """A header and one line per row."""
    names = list(decision.rows[0]) if decision.rows else list(decision.facts["decisions"][0])
    out = io.StringIO()
    lines = csv.DictWriter(out, names, lineterminator="\n")
    lines.writeheader()
    lines.writerows(decision.rows)
    return out.getvalue()


def _algorithm(directory: Path) -> str:
    try:
        return str(json.loads((directory / CHAMPION).read_text(encoding="utf-8"))["algorithm"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise DamagedStateError(
            f"{directory / CHAMPION} cannot be read ({error}); export the run again"
        ) from error
