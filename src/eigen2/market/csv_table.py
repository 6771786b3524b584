"""CSV as people have it: commas, semicolons, tabs or bars, one header line or several, BOM, CRLF, blank lines.

Numbers are read to the last bit: the float64 nearest to the digits, as parquet would hold it.
"""

import csv
import io
import re
from collections.abc import Collection
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv

from eigen2.market.findings import UnusableFile
from eigen2.market.numbers import read_numbers
from eigen2.market.table import CSV_OR_PARQUET, Label, Rules, Table, levels_of

SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_UNKNOWN: Final = ["", "nan", "NaN", "NAN", "null", "NULL", "None", "NA", "<NA>", "#N/A", ".", "-"]
"""Cells of a column of numbers that say: not known. A symbol may well be called NA or NULL."""

_EXCEL_HINT: Final = re.compile(r"sep=.", re.IGNORECASE)
"""Excel's first line, which tells Excel the separator."""

_NO_TABLES: Final = {b"{": "JSON", b"[": "JSON", b"<html": "HTML", b"<!doctype": "HTML", b"<?xml": "XML"}

HEADER_LINES: Final = 5
_BLANK_LINE: Final = re.compile(rb"(?:^|\n)[ \t]*\r?\n")
_HEAD: Final = 4 << 20
"""Bytes among which the header and the first row are looked for."""


class CsvTable(Table):
    def __init__(self, path: Path, rules: Rules, content: bytes, source: str) -> None:
        self.path, self.rules = path, rules
        self._content = _without_mark(path, content)
        lines = _first_lines(self._content)
        if not lines:
            raise UnusableFile(path, "holds nothing but blanks", CSV_OR_PARQUET)
        self._separator = _separator(lines)
        rows = _cells(path, [text for _, text in lines], self._separator)
        width, self.header_row = len(rows[0]), lines[0][0] + 1
        if width < 2:
            raise UnusableFile(
                path,
                "is not a table: its first line has a single field",
                "start with a header: date, SYM1, SYM2, ...",
                self.header_row,
            )
        if sum(map(_is_number, rows[0])) > width / 2:
            raise UnusableFile(
                path,
                "has no header: its first line holds numbers",
                "name the columns in the first line",
                self.header_row,
            )
        headers = 1
        while headers < min(len(rows), HEADER_LINES) and _is_header(rows[headers]):
            headers += 1
        if headers == len(rows):
            raise UnusableFile(path, "has a header but no rows", "add one row per day")
        self.labels = _labels(rows[:headers])
        self.source = (
            source if self._separator == "," else f"{source} separated by {SEPARATORS[self._separator]}"
        )
        self._first = rows[headers]
        self._body = self._content[_offset(self._content, lines[headers][0]) :]
        self._body_line = lines[headers][0] + 1

    def sample(self, column: int) -> str:
        return self._first[column] if column < len(self._first) else ""

    def read(self, text: Collection[int], numbers: Collection[int]) -> pd.DataFrame:
        try:
            table = self._parsed(text, numbers, pa.float64())
        except pa.ArrowInvalid:
            table = self._parsed(text, numbers, pa.string())
        wanted = [int(name) for name in table.column_names]
        columns = {}
        cells = {column: table[str(column)] for column in wanted if column in numbers}
        converted = read_numbers(cells)
        for column in wanted:
            if column in converted:
                columns[column] = converted[column]
            else:
                columns[column] = table[str(column)].to_pandas().where(lambda cell: cell != "", None)
        frame = pd.DataFrame(columns)
        frame.index = pd.Index(self._line_numbers(len(frame)))
        kept = frame.notna().any(axis=1)
        if not kept.any():
            raise UnusableFile(self.path, "has a header but no rows", "add one row per day")
        return frame if kept.all() else frame[kept]

    def _parsed(self, text: Collection[int], numbers: Collection[int], kind: pa.DataType) -> pa.Table:
        width = len(self.labels)
        names = [str(column) for column in range(width)]
        wanted = sorted({*text, *numbers})
        wrong: list[tuple[int, int]] = []

        def invalid(row: arrow_csv.InvalidRow) -> str:
            if row.text.strip():
                wrong.append((row.number, row.actual_columns))
            return "skip"

        table = arrow_csv.read_csv(
            io.BytesIO(self._body),
            arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=8 << 20),
            arrow_csv.ParseOptions(delimiter=self._separator, invalid_row_handler=invalid),
            arrow_csv.ConvertOptions(
                include_columns=[names[column] for column in wanted],
                column_types={names[column]: kind if column in numbers else pa.string() for column in wanted},
                null_values=_UNKNOWN,
            ),
        )
        if wrong:
            row, found = wrong[0]
            problem = f"has {found} fields where the header has {width}"
            line = int(self._line_numbers(row)[-1])
            raise UnusableFile(self.path, problem, "repair or remove this line", line)
        return table

    def _line_numbers(self, rows: int) -> npt.NDArray[np.int64]:
        """Where the first so many rows stand in the file; blank lines are none."""
        if _BLANK_LINE.search(self._body) is None:
            return np.arange(self._body_line, self._body_line + rows)
        lines = io.BytesIO(self._body)
        kept = (place for place, line in enumerate(lines, self._body_line) if line.strip())
        return np.fromiter(islice(kept, rows), np.int64)


def _without_mark(path: Path, content: bytes) -> bytes:
    """The text, proven to be UTF-8, without a byte order mark."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnusableFile(path, "is UTF-16 text", "save it as UTF-8")
    if b"\x00" in content:
        raise UnusableFile(path, "is neither text nor parquet", CSV_OR_PARQUET)
    try:
        if not content.isascii():
            content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnusableFile(path, "is not UTF-8 text", "save it with the encoding UTF-8", line) from None
    content = content.removeprefix(b"\xef\xbb\xbf")
    for opening, kind in _NO_TABLES.items():
        if content[:64].lstrip().lower().startswith(opening):
            raise UnusableFile(path, f"is {kind}, not a table", CSV_OR_PARQUET)
    return content if b"\n" in content else content.replace(b"\r", b"\n")


def _first_lines(content: bytes) -> list[tuple[int, str]]:
    """The first lines that are not blank and no comments at the top, each with its place in the file."""
    lines = content[:_HEAD].decode("utf-8", errors="ignore").splitlines()
    found = [(place, line) for place, line in enumerate(lines) if line.strip()]
    while found and (found[0][1].startswith("#") or _EXCEL_HINT.fullmatch(found[0][1].strip())):
        found.pop(0)
    return found[: HEADER_LINES + 1]


def _separator(lines: list[tuple[int, str]]) -> str:
    """What splits the first line into the most fields; commas if in doubt."""
    return max(SEPARATORS, key=lambda separator: len(next(csv.reader([lines[0][1]], delimiter=separator))))


def _cells(path: Path, lines: list[str], separator: str) -> list[list[str]]:
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    try:
        return [[cell.strip() for cell in row] for row in reader]
    except csv.Error as error:
        raise UnusableFile(path, f"is not a CSV table ({error})", CSV_OR_PARQUET, reader.line_num) from None


def _is_header(cells: list[str]) -> bool:
    """A line without any date or number, after the first: another level of the columns, or the name of the index."""
    return any(cells) and not any(c.isdigit() for c in cells[0]) and not any(map(_is_number, cells))


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", ".", 1))
    except ValueError:
        return False
    return True


def _labels(headers: list[list[str]]) -> tuple[Label, ...]:
    """The names of each column by level. A line that names the first column alone is pandas' name of the index."""
    levels = [row for row in headers if any(row[1:])]
    names = [row[0] for row in headers if not any(row[1:])]
    if len(headers) == 1:
        return tuple(levels_of(cell) for cell in headers[0])
    first: Label = (names[0] if names else levels[0][0],)
    width = len(headers[0])
    if len(levels) > 1:
        first = (*first, *("" for _ in levels[1:]))
    rest = [tuple(row[column] if column < len(row) else "" for row in levels) for column in range(1, width)]
    return (first, *rest)


def _offset(content: bytes, line: int) -> int:
    """Where a line begins."""
    place = 0
    for _ in range(line):
        place = content.index(b"\n", place) + 1
    return place
