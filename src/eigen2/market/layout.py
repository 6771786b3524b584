"""From a file or a folder to prices on one calendar. How a table is laid out is found in its labels:

* wide: a column of dates, and one of closes for each symbol;
* pairs: a column for each field of each symbol (yfinance), see `headers`;
* long: a row for each day of each symbol, with a column that names it (Kaggle, FinRL, Alpaca, Stooq's bulk files);
* single: one symbol, called as the file is (Yahoo, Stooq, ccxt); a folder of these is a market.
"""

from pathlib import Path

import numpy as np

from eigen2.market.adjust import adjusted
from eigen2.market.columns import date_column, plain_labels, read_column
from eigen2.market.data import FloatArray
from eigen2.market.dates import parse_dates
from eigen2.market.findings import Finding, UnusableFile
from eigen2.market.folder import read_folder
from eigen2.market.grid import Grid
from eigen2.market.headers import Pairs, joined_pairs, read_pairs
from eigen2.market.order import order_findings
from eigen2.market.prices import Prices
from eigen2.market.roles import Roles, roles_of
from eigen2.market.rows import has_rows, known, pivot, read_rows
from eigen2.market.table import Rules, Table, open_table
from eigen2.market.vendors import described


def read_grid(path: Path, rules: Rules) -> tuple[Grid | None, list[Finding]]:
    """The grid when rows and columns are in order, else what is not; with it, notes on how it was read."""
    if path.is_dir():
        return read_folder(path, rules)
    table = open_table(path, rules)
    if (pairs := read_pairs(table)) is not None:
        date, columns = pairs
        return _read_wide(table, date, columns, "a column per field and symbol")
    labels = plain_labels(table)
    roles = roles_of([labels.get(place, "") for place in range(len(table.labels))])
    dates = date_column(table, roles, labels)
    if has_rows(roles):
        cells, findings = read_rows(table, roles, dates)
        return (None, findings) if cells is None else pivot([cells], cells.source, findings)
    symbols = [place for place in labels if place != dates]
    if not symbols:
        raise UnusableFile(table.path, "has dates but no symbols", "add one column of closes per symbol")
    if (joined := joined_pairs(table, symbols)) is not None:
        return _read_wide(table, dates, joined, "a column per field and symbol")
    _refuse_fields(table, roles, labels, symbols)
    closes = {"close": {labels[place]: place for place in symbols}}
    return _read_wide(table, dates, closes, "wide closes")


def _refuse_fields(table: Table, roles: Roles, labels: dict[int, str], symbols: list[int]) -> None:
    """Columns named as fields beside symbols; LOW and OPEN are tickers too."""
    named = [labels[place] for place in (*roles.fields.values(), *roles.left_out) if place in labels]
    if roles.symbol is not None:
        named.append(labels[roles.symbol])
    tickers = [name for name in named if name.isupper() and len(symbols) > 1]
    fields = [name for name in named if name not in tickers]
    if fields:
        problem = f"has a column {fields[0]} but no column named close"
        advice = "add the closing prices: close, or leave only dates and one column of closes per symbol"
        raise UnusableFile(table.path, problem, advice, table.header_row)


def _read_wide(table: Table, date: int, columns: Pairs, layout: str) -> tuple[Grid | None, list[Finding]]:
    file = str(table.path)
    if not {"close", "adj close"} & set(columns):
        raise UnusableFile(table.path, "has no closing prices", "add them: close", table.header_row)
    in_order = layout == "wide closes"
    named = {symbol: None for by_symbol in columns.values() for symbol in by_symbol}
    symbols = tuple(named) if in_order else tuple(sorted(named))
    frame = table.read([date], [place for by_symbol in columns.values() for place in by_symbol.values()])
    days, findings = parse_dates(frame[date], file, table.rules.day_first)
    rows = frame.index.to_numpy(dtype=np.int64)
    findings += order_findings(days, rows, file, None)
    arrays: dict[str, FloatArray] = {}
    for field, by_symbol in columns.items():
        arrays[field] = np.full((len(days), len(symbols)), np.nan)
        for position, symbol in enumerate(symbols):
            if symbol in by_symbol:
                values, found = read_column(frame[by_symbol[symbol]], file, symbol, field)
                arrays[field][:, position] = values
                findings += found
    if findings:
        return None, findings
    if len(days) > 1 and days[0] > days[-1]:
        days, rows = days[::-1], rows[::-1]
        arrays = {field: np.ascontiguousarray(array[::-1]) for field, array in arrays.items()}
    arrays, notes = adjusted(arrays, file)
    prices = Prices(days, symbols, **known(arrays))
    grid_rows = np.broadcast_to(rows[:, None], prices.close.shape)
    return Grid(
        prices, grid_rows, described(table.source, table.labels, layout), (file,) * len(symbols)
    ), notes
