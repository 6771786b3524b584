"""Numbers as they are written: 1234.5, 1,234.50, 1.234,50, 1234,5, $12.50.

Whether a comma groups thousands or starts the decimals is decided for the whole table by cells that can mean only one of
the two. Where no cell decides, a column with commas stays the text it is.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

UNKNOWN: Final = ("", "nan", "null", "none", "na", "<na>", "#n/a", ".", "-")
"""Cells of a column of numbers that say: not known, in any case."""

AMBIGUOUS: Final = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
"""1,234: a thousand and more, or one and a little."""

_POINT: Final = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)?(\.\d*)?([eE][+-]?\d+)?")
_COMMA: Final = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)?(,\d*)?([eE][+-]?\d+)?")
_UNITS: Final = {"K": 1e3, "M": 1e6, "B": 1e9}
"""Volumes as people read them: 99.12M."""
_SIGNS: Final = re.compile(r"^\s*[$€£]?\s*|\s+$")


def read_numbers(columns: Mapping[int, pa.ChunkedArray]) -> dict[int, "pd.Series[Any]"]:
    """float64 by column; a column with a cell that is not a number, or not one number only, stays text."""
    texts = {
        column: pd.Series([_plain(cell) for cell in cells.to_pylist()], dtype=object)
        for column, cells in columns.items()
        if not pa.types.is_floating(cells.type)
    }
    style = _style(texts.values())
    return {
        column: _converted(texts[column], style) if column in texts else pd.Series(cells.to_numpy())
        for column, cells in columns.items()
    }


def _plain(cell: str | None) -> str | None:
    """Without blanks and a currency's sign; None for a cell that says it is unknown."""
    text = _SIGNS.sub("", cell or "")
    return None if text.lower() in UNKNOWN else text


def _style(columns: Any) -> str | None:
    """point or comma, whichever starts the decimals; None when no cell tells, or cells contradict each other."""
    point = comma = False
    for column in columns:
        for text in column.dropna().unique():
            text = text.rstrip("".join(_UNITS))
            if AMBIGUOUS.fullmatch(text) or ("." not in text and "," not in text):
                continue
            as_point, as_comma = _POINT.fullmatch(text), _COMMA.fullmatch(text)
            point |= bool(as_point and not as_comma)
            comma |= bool(as_comma and not as_point)
    return None if point == comma else "point" if point else "comma"


def _converted(column: "pd.Series[Any]", style: str | None) -> "pd.Series[Any]":
    values = np.full(len(column), np.nan)
    for place, text in enumerate(column):
        if not isinstance(text, str):
            continue
        number = _value(text, style)
        if number is None:
            return column
        values[place] = number
    return pd.Series(values)


def _value(text: str, style: str | None) -> float | None:
    if text[-1:] in _UNITS and len(text) > 1:
        count = _value(text[:-1], style)
        return None if count is None else round(count * _UNITS[text[-1]])
    if style is not None:
        if (_POINT if style == "point" else _COMMA).fullmatch(text) is None:
            return _float(text)
        group, decimal = (",", ".") if style == "point" else (".", ",")
        return _float(text.replace(group, "").replace(decimal, "."))
    return None if "," in text else _float(text)


def _float(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)  # Python groups digits by underscores, people do not
    except ValueError:
        return None
