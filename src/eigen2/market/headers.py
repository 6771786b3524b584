"""Columns that are pairs of a field and a symbol: yfinance's tables, and names that join the two.

Read as plain names, the volumes of such a table would be traded as prices. So every column of it must be known as a
field of a symbol, or the table is refused.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from eigen2.market.findings import UnusableFile
from eigen2.market.roles import field_of, is_date, is_left_out, is_row_number
from eigen2.market.table import Label, Table

ONE_FIELD: Final = (
    'save one field alone, with a column per symbol, e.g. df["Close"].to_parquet("prices.parquet")'
)

Pairs = dict[str, dict[str, int]]
"""field -> symbol -> column"""

_SEPARATORS: Final = ("_", ".", " ", "-", ":", "/", "|")


def read_pairs(table: Table) -> tuple[int, Pairs] | None:
    """The column of dates, and field -> symbol -> column, of a table with two levels of labels; None if it has one."""
    labels = table.labels
    if all(len(label) == 1 for label in labels):
        return None
    several = [label for label in labels if len(label) > 1 and any(label[1:])]
    shown = several[-1] if several else labels[-1]
    problem = f"has columns that are pairs such as ({', '.join(shown)})"
    date, columns = _date_column(labels)
    if date is None or not columns or any(len(labels[place]) != 2 for place in columns):
        raise UnusableFile(table.path, problem, ONE_FIELD, table.header_row)
    for level in (0, 1):
        if all(_is_field(labels[place][level]) for place in columns):
            pairs = {place: (labels[place][level], labels[place][1 - level]) for place in columns}
            return date, _by_field(table, pairs)
    raise UnusableFile(
        table.path,
        f"{problem}, of which neither name is always a field (open, high, low, close, volume)",
        ONE_FIELD,
        table.header_row,
    )


def _date_column(labels: Sequence[Label]) -> tuple[int | None, list[int]]:
    """The column of dates, and those that are neither dates nor row numbers.

    It has a name of its own, ('Date', ''), or it is the first: the index, whose label names the levels.
    """
    single = [place for place, label in enumerate(labels) if not any(label[1:])]
    named = next((place for place in single if is_date(labels[place][0])), None)
    date = named if named is not None else (0 if 0 in single else None)
    rest = [
        place
        for place, label in enumerate(labels)
        if place != date and not (place in single and (place == 0 or is_row_number(label[0])))
    ]
    return date, rest


def _is_field(name: str) -> bool:
    return field_of(name) is not None or is_left_out(name)


def _by_field(table: Table, pairs: dict[int, tuple[str, str]]) -> Pairs:
    found: Pairs = defaultdict(dict)
    for place, (name, symbol) in pairs.items():
        field = field_of(name)
        if not symbol:
            raise UnusableFile(
                table.path, f"has a column {name} without a symbol", ONE_FIELD, table.header_row
            )
        if field is None:
            continue
        if symbol in found[field]:
            problem = f"has more than one column ({name}, {symbol})"
            raise UnusableFile(table.path, problem, "keep one of them", table.header_row)
        found[field][symbol] = place
    return dict(found)


def joined_pairs(table: Table, columns: Sequence[int]) -> Pairs | None:
    """field -> symbol -> column where all of the columns join a field and a symbol in one way, e.g. AAPL.Close.

    Names of several fields that do not add up to such a table are refused; names of closes alone are plain names.
    """
    names = {place: table.labels[place][0] for place in columns}
    mixed: dict[str, dict[str, str]] = defaultdict(dict)
    for separator in _SEPARATORS:
        for field_first in (True, False):
            split = {place: _split(name, separator, field_first) for place, name in names.items()}
            pairs = {place: pair for place, pair in split.items() if pair is not None}
            fields = {field_of(name) for name, _ in pairs.values()} - {None}
            if len(pairs) == len(names) and len(fields) > 1 and _every_symbol_closes(pairs):
                return _by_field(table, pairs)
            if len(pairs) == len(names) and fields and not fields & {"close", "adj close"}:
                _refuse_joined(table, list(names.values()))
            for place, (name, symbol) in pairs.items():
                if (field := field_of(name)) is not None:
                    mixed[symbol][field] = names[place]
    for several in mixed.values():
        if len(several) > 1:
            _refuse_joined(table, list(several.values()))
    return None


def _split(name: str, separator: str, field_first: bool) -> tuple[str, str] | None:
    """(field, symbol), or None; the field itself may hold the separator: AAPL_Adj_Close."""
    parts = name.split(separator)
    for count in (3, 2, 1):
        if len(parts) <= count:
            continue
        head, tail = (parts[:count], parts[count:]) if field_first else (parts[-count:], parts[:-count])
        field, symbol = separator.join(head), separator.join(tail).strip()
        if symbol and _is_field(field):
            return field, symbol
    return None


def _every_symbol_closes(pairs: dict[int, tuple[str, str]]) -> bool:
    symbols = {symbol for _, symbol in pairs.values()}
    closing = {symbol for name, symbol in pairs.values() if field_of(name) in {"close", "adj close"}}
    return bool(symbols) and symbols == closing


def _refuse_joined(table: Table, names: list[str]) -> None:
    problem = f"has columns that join a field and a symbol, such as {' and '.join(names[:2])}"
    raise UnusableFile(table.path, problem, ONE_FIELD, table.header_row)
