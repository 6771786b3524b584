"""The size of a price file from its labels, dates and symbols alone; no price is read."""

from pathlib import Path

import numpy as np

from eigen2.market.columns import date_column, plain_labels, read_symbols
from eigen2.market.dates import Days, parse_dates
from eigen2.market.folder import members
from eigen2.market.headers import joined_pairs, read_pairs
from eigen2.market.prices import FIELDS
from eigen2.market.roles import roles_of
from eigen2.market.rows import has_rows, symbol_of
from eigen2.market.table import Rules, Table, open_table

Extent = tuple[int, int, int, np.datetime64, np.datetime64]
"""days, symbols, kinds of prices, first and last day"""


def file_extent(path: Path, rules: Rules) -> Extent | None:
    """Raises UnusableFile where there is no table; None when a date cannot be read."""
    files = members(path) if path.is_dir() else [path]
    days: set[np.datetime64] = set()
    symbols: set[str] = set()
    kinds: set[str] = set()
    for file in files:
        table = open_table(file, rules)
        found, names, fields = _contents(table)
        if np.isnat(found).any():
            return None
        days.update(found)
        symbols.update(names)
        kinds.update(fields)
    if not days or not symbols:
        return None
    return len(days), len(symbols), max(1, len(kinds & set(FIELDS))), min(days), max(days)


def _contents(table: Table) -> tuple[Days, set[str], set[str]]:
    """Days that occur, names of symbols and of fields."""
    if (pairs := read_pairs(table)) is not None:
        date, columns = pairs
        names = {symbol for by_symbol in columns.values() for symbol in by_symbol}
        return _days(table, date), names, set(columns) | {"close"}
    labels = plain_labels(table)
    roles = roles_of([labels.get(place, "") for place in range(len(table.labels))])
    date = date_column(table, roles, labels)
    if has_rows(roles):
        fields = set(roles.fields) | {"close"}
        if roles.symbol is None:
            return _days(table, date), {symbol_of(table.path)}, fields
        frame = table.read([date, roles.symbol], [])
        days, _ = parse_dates(frame[date].drop_duplicates(), str(table.path), table.rules.day_first)
        return days, set(read_symbols(frame[roles.symbol], "")[1]), fields
    rest = [place for place in labels if place != date]
    if (joined := joined_pairs(table, rest)) is not None:
        names = {symbol for by_symbol in joined.values() for symbol in by_symbol}
        return _days(table, date), names, set(joined) | {"close"}
    return _days(table, date), {labels[place] for place in rest}, {"close"}


def _days(table: Table, date: int) -> Days:
    column = table.read([date], [])[date]
    return parse_dates(column.drop_duplicates(), str(table.path), table.rules.day_first)[0]
