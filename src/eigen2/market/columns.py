"""The columns of a table one by one: which there are, which holds the dates, and their cells as symbols and numbers."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from eigen2.market.data import FloatArray
from eigen2.market.findings import Finding, UnusableFile, more, shown
from eigen2.market.numbers import AMBIGUOUS
from eigen2.market.prices import FIELDS
from eigen2.market.roles import Roles, is_row_number
from eigen2.market.table import Table

Rows = npt.NDArray[np.int64]


def plain_labels(table: Table) -> dict[int, str]:
    """Column -> its label, without row numbers and empty columns at the end; each must be there, once."""
    labels = {place: label[0] for place, label in enumerate(table.labels)}
    last = len(labels) - 1
    if last > 1 and not labels[last] and not table.sample(last):
        if table.read([0, last], [])[last].notna().any():
            raise UnusableFile(
                table.path, f"column {last + 1} has no name", "name it, or remove it", table.header_row
            )
        del labels[last]
    counted: dict[str, int] = {}
    for place, label in labels.items():
        if not label and place > 0:
            raise UnusableFile(
                table.path, f"column {place + 1} has no name", "name it, or remove it", table.header_row
            )
        key = label.lower() if label.lower() in FIELDS or label.lower() in {"date", "symbol"} else label
        if key in counted:
            problem = f"has more than one column {label}"
            raise UnusableFile(table.path, problem, "keep one of them", table.header_row)
        counted[key] = place
    mangled = [label for label in counted if label[:-2] in counted and label[-2:] in {".1", ".2", ".3"}]
    if mangled:
        problem = f"has a column {mangled[0]}, which is pandas' name for a second column {mangled[0][:-2]}"
        raise UnusableFile(table.path, problem, "keep one of them", table.header_row)
    return labels


def date_column(table: Table, roles: Roles, labels: dict[int, str]) -> int:
    """Which column holds the dates; a nameless first one may. Row numbers are taken out of `labels`."""
    numbered = next((place for place, label in labels.items() if is_row_number(label)), None)
    if roles.date is not None:
        if numbered is not None and (not labels[numbered] or table.sample(numbered).isdigit()):
            del labels[numbered]
        return roles.date
    if numbered is not None and not _is_row_count(table.sample(numbered)):
        return numbered
    raise UnusableFile(table.path, "has no column named date", "name the column of dates: date")


def _is_row_count(sample: str) -> bool:
    return sample.isdigit() and len(sample) < 8


def read_symbols(column: "pd.Series[Any]", file: str) -> tuple[Rows, tuple[str, ...], list[Finding]]:
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
    missing = Finding(file, row, None, "the symbol is missing", "every row needs a symbol")
    return codes, tuple(names), [missing]


def read_column(
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
    cell = shown(column.iloc[first])
    count = more(int(bad.sum()))
    if AMBIGUOUS.fullmatch(cell):
        problem = (
            f"{field} is {cell}, which may be {cell.replace(',', '')} or {cell.replace(',', '.')}{count}"
        )
        advice = "write it without a separator of thousands"
    else:
        problem = f"{field} is {cell}, which is not a finite number{count}"
        advice = "give a plain number such as 12.5, or leave the cell empty if it is unknown"
    return values, [Finding(file, int(column.index[first]), symbol, problem, advice)]
