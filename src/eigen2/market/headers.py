"""What the column names of a price table may be: one name each, no two alike, and no (field, symbol) pairs.

Tables of pandas may have columns of several levels; yfinance's have (field, symbol). Read as plain names, volumes
would be traded as prices, so such tables are refused.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eigen2.market.findings import UnusableFile

RESERVED: Final = frozenset({"date", "symbol", "open", "high", "low", "close", "volume"})
"""Column names with a meaning, in any case."""

ONE_FIELD: Final = (
    'save one field alone, with a column per symbol, e.g. df["Close"].to_parquet("prices.parquet")'
)

_TUPLE: Final = re.compile(r"\(.*,.*\)")
_FIELD: Final = r"adj close|open|high|low|close|volume"
_JOINED: Final = (
    re.compile(rf"(?P<field>{_FIELD})[\W_]+(?P<symbol>.+)", re.IGNORECASE),
    re.compile(rf"(?P<symbol>.+?)[\W_]+(?P<field>{_FIELD})", re.IGNORECASE),
)


def check_labels(path: Path, labels: Sequence[str], row: int | None) -> None:
    """Raises UnusableFile unless every column has a name of its own."""
    cleaned = [label.strip() for label in labels]
    _refuse_levels(path, cleaned, row)
    if "" in cleaned:
        position = cleaned.index("") + 1
        raise UnusableFile(path, f"column {position} has no name", "name it, or remove it", row)
    folded = Counter(_fold(label) for label in cleaned)
    for label in cleaned:
        if folded[_fold(label)] > 1:
            raise UnusableFile(path, f"has more than one column {label}", "keep one of them", row)


def refuse_second_header(path: Path, labels: Sequence[str], second: Sequence[str]) -> None:
    """A second line without any date or number is a second header: columns of several levels, as pandas writes them."""
    cells = [cell.strip() for cell in second]
    if not any(cells) or any(character.isdigit() for character in cells[0]) or any(map(_is_number, cells)):
        return
    problem = f"is a second header line, so that the columns are pairs such as ({labels[-1]}, {cells[-1]})"
    raise UnusableFile(path, problem, ONE_FIELD, row=2)


def _refuse_levels(path: Path, labels: Sequence[str], row: int | None) -> None:
    tuples = [label for label in labels if _TUPLE.fullmatch(label)]
    if tuples:
        raise UnusableFile(path, f"has columns that are pairs such as {tuples[-1]}", ONE_FIELD, row)
    fields: dict[str, dict[str, str]] = defaultdict(dict)
    for label in labels:
        for pattern in _JOINED:
            if match := pattern.fullmatch(label):
                fields[match["symbol"]][match["field"].lower()] = label
    for several in fields.values():
        if len(several) > 1:
            names = " and ".join(list(several.values())[:2])
            problem = f"has columns that join a field and a symbol, such as {names}"
            raise UnusableFile(path, problem, ONE_FIELD, row)


def _fold(label: str) -> str:
    """Reserved names are the same in any case; symbols are not."""
    lowered = label.lower()
    return lowered if lowered in RESERVED else label


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
