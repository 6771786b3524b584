"""Tables with a row for each day of a symbol: long ones name it in a column, single ones by their file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from eigen2.market.adjust import adjusted
from eigen2.market.columns import read_column, read_symbols
from eigen2.market.data import FloatArray
from eigen2.market.dates import DAILY_ADVICE, Days, parse_dates
from eigen2.market.findings import Finding, UnusableFile
from eigen2.market.grid import Grid
from eigen2.market.headers import Pairs
from eigen2.market.order import sorted_long
from eigen2.market.prices import Prices
from eigen2.market.roles import Roles, is_row_number
from eigen2.market.table import Table
from eigen2.market.vendors import described

Rows = npt.NDArray[np.int64]

DATA_SUFFIXES: Final = (".csv", ".txt", ".tsv", ".csv.gz", ".txt.gz", ".tsv.gz", ".parquet", ".pq")
KNOWN: Final = "date, symbol, open, high, low, close, adj close, volume"


@dataclass(frozen=True)
class Cells:
    """What one long or single table holds, row by row."""

    file: str
    days: Days
    symbols: tuple[str, ...]
    column: Rows
    """[row] position in `symbols`."""
    rows: Rows
    values: dict[str, FloatArray]
    """[row] by field."""
    source: str


def has_rows(roles: Roles) -> bool:
    """Whether each row is a day of one symbol."""
    closes = {"close", "adj close"} & set(roles.fields)
    return bool(closes) or (roles.symbol is not None and not roles.unknown)


def read_rows(
    table: Table, roles: Roles, date: int, symbol: str | None = None
) -> tuple[Cells | None, list[Finding]]:
    """A long or single table; `symbol` names what a single one holds, else its file does."""
    file = str(table.path)
    if not {"close", "adj close"} & set(roles.fields):
        raise UnusableFile(table.path, "has no column named close", "add the closing prices: close")
    unknown = [table.labels[place][0] for place in roles.unknown if not is_row_number(table.labels[place][0])]
    findings = [
        Finding(file, None, None, f"has an unknown column {label}", f"remove it or rename it; known are: {KNOWN}")
        for label in unknown
    ]  # fmt: skip
    also = [place for place in (roles.symbol, roles.clock, roles.period) if place is not None]
    frame = table.read([date, *also], list(roles.fields.values()))
    rows = frame.index.to_numpy(dtype=np.int64)
    days, found = parse_dates(frame[date], file, table.rules.day_first)
    findings += [*found, *_finer_than_daily(frame, roles, file)]
    if roles.symbol is None:
        symbols: tuple[str, ...] = (symbol or symbol_of(table.path),)
        column = np.zeros(len(frame), np.int64)
    else:
        column, symbols, found = read_symbols(frame[roles.symbol], file)
        findings += found
    values = {}
    for field, place in roles.fields.items():
        values[field], found = read_column(frame[place], file, None, field)
        findings += found
    if findings:
        return None, findings
    layout = "one symbol, named after the file" if roles.symbol is None else "a row per day and symbol"
    source = described(table.source, table.labels, layout)
    return Cells(file, days, symbols, column, rows, values, source), []


def read_pair_rows(table: Table, date: int, columns: Pairs) -> tuple[Cells | None, list[Finding]]:
    """A table with a column per field and symbol, as the rows of one symbol after the other."""
    file = str(table.path)
    symbols = tuple(sorted({symbol for by_symbol in columns.values() for symbol in by_symbol}))
    frame = table.read([date], [place for by_symbol in columns.values() for place in by_symbol.values()])
    days, findings = parse_dates(frame[date], file, table.rules.day_first)
    values = {}
    for field, by_symbol in columns.items():
        parts = []
        for symbol in symbols:
            part, found = (
                read_column(frame[by_symbol[symbol]], file, symbol, field)
                if symbol in by_symbol
                else (np.full(len(frame), np.nan), [])
            )
            parts.append(part)
            findings += found
        values[field] = np.concatenate(parts)
    if findings:
        return None, findings
    count, rows = len(symbols), frame.index.to_numpy(dtype=np.int64)
    column = np.repeat(np.arange(count), len(frame))
    source = described(table.source, table.labels, "a column per field and symbol")
    return Cells(file, np.tile(days, count), symbols, column, np.tile(rows, count), values, source), []


def symbol_of(path: Path) -> str:
    """The name of a file without its suffixes of format and compression."""
    name = path.name
    suffix = next(
        (suffix for suffix in sorted(DATA_SUFFIXES, key=len)[::-1] if name.lower().endswith(suffix)), ""
    )
    return name[: len(name) - len(suffix)] or name


def _finer_than_daily(frame: pd.DataFrame, roles: Roles, file: str) -> list[Finding]:
    """Stooq tells the period of its bars in minutes, and their time of day."""
    findings = []
    if roles.period is not None:
        periods = frame[roles.period].astype(str).str.strip().str.upper()
        wrong = ~periods.isin(["D", "W", "M", "Q", "Y"]) | (periods != periods.iloc[0])
        if wrong.any():
            place = int(np.argmax(wrong.to_numpy()))
            problem = f"the period is {periods.iloc[place]}, not the same day, week or month in every row"
            findings.append(Finding(file, int(frame.index[place]), None, problem, DAILY_ADVICE))
    if roles.clock is not None:
        times = frame[roles.clock].astype(str).str.strip()
        if times.nunique() > 1:
            place = int(np.argmax((times != times.iloc[0]).to_numpy()))
            problem = f"the time of day is {times.iloc[place]}, another than before"
            findings.append(Finding(file, int(frame.index[place]), None, problem, DAILY_ADVICE))
    return findings


def pivot(tables: list[Cells], source: str, findings: list[Finding]) -> tuple[Grid | None, list[Finding]]:
    """Rows of all tables -> [day, symbol], symbols in the order of their names."""
    for cells in tables:
        findings = [*findings, *sorted_long(cells.days, cells.column, cells.symbols, cells.rows, cells.file)]
    if findings:
        return None, findings
    symbols = tuple(sorted({symbol for cells in tables for symbol in cells.symbols}))
    position = {symbol: place for place, symbol in enumerate(symbols)}
    days = np.concatenate([cells.days for cells in tables])
    column = np.concatenate(
        [np.array([position[s] for s in cells.symbols])[cells.column] for cells in tables]
    )
    rows = np.concatenate([cells.rows for cells in tables])
    calendar, day = _calendar(days)
    shape = (len(calendar), len(symbols))
    arrays = {}
    fields = {field: None for cells in tables for field in cells.values}
    for field in fields:
        arrays[field] = np.full(shape, np.nan)
        arrays[field][day, column] = np.concatenate(
            [cells.values.get(field, np.full(len(cells.days), np.nan)) for cells in tables]
        )
    arrays, notes = adjusted(arrays, tables[0].file if len(tables) == 1 else str(Path(tables[0].file).parent))
    places = np.zeros(shape, dtype=np.int64)
    places[day, column] = rows
    files = {symbol: cells.file for cells in tables for symbol in cells.symbols}
    grid = Grid(Prices(calendar, symbols, **known(arrays)), places, source, tuple(files[s] for s in symbols))
    return grid, notes


def _calendar(days: Days) -> tuple[Days, Rows]:
    """The days that occur, ascending, and the position of each row's."""
    number = days.astype(np.int64)
    first = int(number.min())
    occurs = np.bincount(number - first) > 0
    return days.min() + np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[number - first]


def known(arrays: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Without fields of which nothing is known."""
    return {name: array for name, array in arrays.items() if name == "close" or not np.isnan(array).all()}
