"""From a table to prices on one calendar: wide (date, SYM1, SYM2, ...) or long (date, symbol, open, ..., volume)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from eigen2.market.data import FloatArray
from eigen2.market.dates import Days, parse_dates
from eigen2.market.findings import Finding, UnusableFile
from eigen2.market.headers import RESERVED
from eigen2.market.prices import FIELDS, Prices
from eigen2.market.table import Table

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """Prices and where in the file each of them stands."""

    prices: Prices
    rows: Rows
    """[day, symbol] row in the file; 0 where the file has none. Broadcast for wide files."""


def read_grid(table: Table) -> tuple[Grid | None, list[Finding]]:
    """The grid when rows and columns are in order, else what is not."""
    labels = {label.lower(): label for label in table.frame.columns if label.lower() in RESERVED}
    if "date" not in labels:
        raise UnusableFile(table.path, "has no column named date", "name the column of dates: date")
    if "symbol" in labels:
        return _read_long(table, labels)
    if prices := [label for name, label in labels.items() if name != "date"]:
        raise UnusableFile(
            table.path,
            f"has a column {prices[0]} but no column named symbol",
            "add a symbol column, or name each column of closes after its symbol",
        )
    return _read_wide(table, labels["date"])


def _read_wide(table: Table, date: str) -> tuple[Grid | None, list[Finding]]:
    file = str(table.path)
    days, findings = parse_dates(table.frame[date], file)
    rows = table.frame.index.to_numpy(dtype=np.int64)
    findings += _order_findings(days, rows, file, None)
    symbols = tuple(label for label in table.frame.columns if label != date)
    if not symbols:
        raise UnusableFile(table.path, "has dates but no symbols", "add one column of closes per symbol")
    close = np.empty((len(days), len(symbols)))
    for position, symbol in enumerate(symbols):
        values, found = _numbers(table.frame[symbol], file, symbol, "close")
        close[:, position] = values
        findings += found
    if findings:
        return None, findings
    grid_rows = np.broadcast_to(rows[:, None], close.shape)
    return Grid(Prices(days, symbols, close), grid_rows), []


def _read_long(table: Table, labels: dict[str, str]) -> tuple[Grid | None, list[Finding]]:
    file = str(table.path)
    if "close" not in labels:
        raise UnusableFile(table.path, "has no column named close", "add the closing prices: close")
    findings = [
        Finding(file, None, None, f"has an unknown column {label}", "remove it or rename it; known are: "
                "date, symbol, open, high, low, close, volume")
        for label in table.frame.columns if label.lower() not in RESERVED
    ]  # fmt: skip
    days, found = parse_dates(table.frame[labels["date"]], file)
    findings += found
    rows = table.frame.index.to_numpy(dtype=np.int64)
    column, symbols, found = _symbols(table.frame[labels["symbol"]], file)
    findings += found
    values = {}
    for field in FIELDS:
        if field in labels:
            values[field], found = _numbers(table.frame[labels[field]], file, None, field)
            findings += found
    if not findings:
        findings = _long_order_findings(days, column, symbols, rows, file)
    if findings:
        return None, findings
    return _pivot(days, column, symbols, rows, values), []


def _pivot(
    days: Days, column: Rows, symbols: tuple[str, ...], rows: Rows, values: dict[str, FloatArray]
) -> Grid:
    number = days.astype(np.int64)
    occurs = np.bincount(number - number.min()) > 0
    calendar = days.min() + np.flatnonzero(occurs)
    day = (np.cumsum(occurs) - 1)[number - number.min()]
    shape = (len(calendar), len(symbols))
    arrays = {}
    for field, cells in values.items():
        if field != "close" and np.isnan(cells).all():
            continue
        arrays[field] = np.full(shape, np.nan)
        arrays[field][day, column] = cells
    places = np.zeros(shape, dtype=np.int64)
    places[day, column] = rows
    return Grid(Prices(calendar, symbols, **arrays), places)


def _symbols(column: "pd.Series[Any]", file: str) -> tuple[Rows, tuple[str, ...], list[Finding]]:
    """Codes [row] into the sorted names; blanks around a name do not count."""
    raw_codes, raw_names = pd.factorize(column)
    names = sorted({str(name).strip() for name in raw_names} - {""})
    position = {name: code for code, name in enumerate(names)}
    # The last entry, which code -1 (an empty cell) picks, is a missing symbol as well.
    code_of = np.array([*(position.get(str(name).strip(), -1) for name in raw_names), -1], dtype=np.int64)
    codes = code_of[raw_codes]
    if (codes >= 0).all():
        return codes, tuple(names), []
    row = int(column.index[int(np.argmax(codes < 0))])
    return (
        codes,
        tuple(names),
        [Finding(file, row, None, "the symbol is missing", "every row needs a symbol")],
    )


def _numbers(
    column: "pd.Series[Any]", file: str, symbol: str | None, field: str
) -> tuple[FloatArray, list[Finding]]:
    """Values [row] as float64; a cell that is not a finite number is a finding, an empty one is NaN."""
    values: FloatArray
    if pd.api.types.is_float_dtype(column.dtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        bad = np.isinf(values)
    elif pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        values = np.full(len(column), np.nan)
        bad = column.notna().to_numpy()
    else:
        values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        bad = (np.isnan(values) & column.notna().to_numpy()) | np.isinf(values)
    if not bad.any():
        return values, []
    first = int(np.argmax(bad))
    cell = column.iloc[first]
    problem = f"{field} is {cell!s}, which is not a finite number{more(int(bad.sum()))}"
    advice = "give a plain number such as 12.5, or leave the cell empty if it is unknown"
    return values, [Finding(file, int(column.index[first]), symbol, problem, advice)]


def more(count: int) -> str:
    return "" if count <= 1 else f" (and {count - 1} more like it)"


def _order_findings(days: Days, rows: Rows, file: str, symbol: str | None) -> list[Finding]:
    """Dates must ascend, each once; unreadable ones have been reported already."""
    known = ~np.isnat(days)
    days, rows = days[known], rows[known]
    findings = []
    order = np.argsort(days, kind="stable")
    twice = np.flatnonzero(days[order][1:] == days[order][:-1])
    if twice.size:
        place = order[twice[0] + 1]
        problem = f"the date {days[place]} occurs twice{more(int(twice.size))}"
        findings.append(Finding(file, int(rows[place]), symbol, problem, "keep one row per day"))
    back = np.flatnonzero(days[1:] < days[:-1])
    if back.size:
        place = back[0] + 1
        problem = f"the date {days[place]} comes after {days[place - 1]}{more(int(back.size))}"
        findings.append(
            Finding(file, int(rows[place]), symbol, problem, "sort the rows by date, oldest first")
        )
    return findings


def _long_order_findings(
    days: Days, column: Rows, symbols: tuple[str, ...], rows: Rows, file: str
) -> list[Finding]:
    """Each symbol's dates must ascend; how symbols are interleaved does not matter."""
    if (np.diff(days.astype(np.int64) * len(symbols) + column) > 0).all():
        return []  # sorted by date, then symbol: the usual case needs no sorting
    order = np.argsort(column, kind="stable")
    same = column[order][1:] == column[order][:-1]
    step = np.diff(days[order].astype(np.int64))
    findings = []
    for code in np.unique(column[order][1:][same & (step <= 0)]):
        mine = column == code
        findings += _order_findings(days[mine], rows[mine], file, symbols[code])
    return findings
