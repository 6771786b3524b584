"""Objects that evaluations.jsonl names: the tables of evaluations."""

import json
import re
from pathlib import Path
from typing import Any

from eigen2.store.layout import EVALUATIONS_LIMIT
from eigen2.store.plain_files import read_plain

_HASH = re.compile("[0-9a-f]{64}")


def series_of(record: Any) -> set[str]:
    """Those that one evaluation names; a stranger's may name what can be no object."""
    series = record.get("series") if isinstance(record, dict) else None
    named = series.values() if isinstance(series, dict) else ()
    return {name for name in named if isinstance(name, str) and _HASH.fullmatch(name)}


def all_series(log: Path) -> set[str]:
    """Those of all lines that can be read."""
    found: set[str] = set()
    for line in read_plain(log, EVALUATIONS_LIMIT).splitlines() if log.exists() else ():
        try:
            found |= series_of(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return found
