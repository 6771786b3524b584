"""From a file to a table of columns. Looks at the first bytes, believes no extension, unpickles nothing.

A table is opened first: its labels are known, and the first cell of each column. Which columns are read, and which of them
as numbers, is for the layout to say.
"""

import ast
import gzip
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from eigen2.bounds import LONGEST_CELL, TooLarge, check_bytes, check_file, check_table, open_regular
from eigen2.market.findings import UnusableFile

CSV_OR_PARQUET: Final = "give a CSV or parquet file"
_PIECE: Final = 16 << 20

_FOREIGN: Final = (
    (b"(\xb5/\xfd", "is compressed with zstd", "unpack it first, or save it as parquet"),
    (b"PK\x03\x04", "is a zip archive or an Excel workbook", "unpack it, or export the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "is an old Excel workbook", "export the sheet as CSV"),
    (b"\x89HDF", "is an HDF5 file", CSV_OR_PARQUET),
    (b"ARROW1", "is a Feather file", "save it as parquet"),
    (b"SQLite format 3", "is a SQLite database", "export the table as CSV"),
    (b"\x93NUMPY", "is a NumPy array without column names", CSV_OR_PARQUET),
)
_PARQUET: Final = b"PAR1"
_GZIP: Final = b"\x1f\x8b"
_BINARY_PICKLE: Final = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))

_TUPLE: Final = re.compile(r"\(.*,.*\)")

Label = tuple[str, ...]
"""The names of a column, one for each level of the header."""


@dataclass(frozen=True)
class Rules:
    """How a file is read where it does not tell itself."""

    day_first: bool | None = None
    """Whether 03/01/2020 is 3 January."""
    judge: bool = True
    """Whether series that cannot be prices of one kind are refused."""


class Table(ABC):
    """An opened file. Columns are known by their position."""

    path: Path
    rules: Rules
    labels: tuple[Label, ...]
    header_row: int | None
    """Where the labels stand, for messages."""
    source: str
    """CSV, parquet, ..."""

    @abstractmethod
    def sample(self, column: int) -> str:
        """The first cell of a column as text, empty if there is none."""

    @abstractmethod
    def read(self, text: Collection[int], numbers: Collection[int]) -> pd.DataFrame:
        """The chosen columns under their positions; the index holds the rows' numbers in the file.

        `numbers` are float64 unless a cell cannot be read as a number; then that column holds the cells as text.
        """


def levels_of(text: str) -> Label:
    """The levels of a label; pandas writes pairs into parquet as ('Close', 'AAPL')."""
    if _TUPLE.fullmatch(text) is None:
        return (text.strip(),)
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return (text,)
    return tuple(str(part).strip() for part in found) if isinstance(found, tuple) else (text,)


def open_table(path: Path, rules: Rules) -> Table:
    """Raises UnusableFile with a sentence when there is no table in the file."""
    from eigen2.market.csv_table import CsvTable

    try:
        with open_regular(path) as file:
            head = file.read(64)
            check_file(path)
    except TooLarge as error:
        raise UnusableFile(
            path, f"does not fit into memory ({error})", "give fewer days or symbols"
        ) from None
    except OSError as error:
        raise UnusableFile(
            path, f"cannot be read ({error.strerror})", "check the path and its permissions"
        ) from None
    if not head:
        raise UnusableFile(path, "is empty", CSV_OR_PARQUET)
    if head.startswith(_BINARY_PICKLE):
        raise UnusableFile(
            path,
            "is a pickle, which can run any program when opened and is never read",
            "load it where you trust it and save it as parquet",
        )
    for magic, problem, advice in _FOREIGN:
        if head.startswith(magic):
            raise UnusableFile(path, problem, advice)
    if head.startswith(_PARQUET):
        return ParquetTable(path, rules)
    if path.suffix.lower() in {".parquet", ".pq"}:
        raise UnusableFile(
            path, "is named parquet but is not (its first bytes are not PAR1)", "export it again"
        )
    if head.startswith(_GZIP):
        return CsvTable(path, rules, _unpacked(path), "CSV, gzip")
    return CsvTable(path, rules, path.read_bytes(), "CSV")


def _unpacked(path: Path) -> bytes:
    """Piece by piece: a few bytes of gzip can stand for more than the memory holds."""
    pieces, total = [], 0
    try:
        with gzip.open(path) as file:
            while piece := file.read(_PIECE):
                total += len(piece)
                check_bytes(total)
                pieces.append(piece)
    except TooLarge as error:
        raise UnusableFile(
            path, f"does not fit into memory ({error})", "give fewer days or symbols"
        ) from None
    except (OSError, EOFError, zlib.error):
        raise UnusableFile(path, "is truncated or damaged gzip", "copy it again from its source") from None
    return b"".join(pieces)


class ParquetTable(Table):
    def __init__(self, path: Path, rules: Rules) -> None:
        self.path, self.rules, self.header_row, self.source = path, rules, None, "parquet"
        # A file handle, not a path: pyarrow would read partition keys out of the directory names.
        with _damage_named(path), open_regular(path) as file:
            opened = pq.ParquetFile(file)
            check_table(opened)
            self._schema = opened.schema_arrow
            self.rows = int(opened.metadata.num_rows)
        if self.rows == 0:
            raise UnusableFile(path, "has columns but no rows", "add one row per day")
        for field in self._schema:
            if pa.types.is_nested(field.type):
                raise UnusableFile(
                    path, f"column {field.name} holds lists or records", "store one number per cell"
                )
        self.labels = tuple(levels_of(name) for name in self._schema.names)

    def _texts(self) -> list[str]:
        """Columns of text: each distinct cell is kept once."""
        return [
            field.name
            for field in self._schema
            if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        ]

    def sample(self, column: int) -> str:
        kind = self._schema.field(column).type
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return "2020-01-31"
        with _damage_named(self.path), open_regular(self.path) as file:
            batches = pq.ParquetFile(file).iter_batches(1, [0], columns=[self._schema.names[column]])
            rows = next(iter(batches), None)
            if not rows:
                raise ValueError("its first row is missing")
            first = rows.column(0)[0].as_py()
        return "" if first is None else str(first).strip()

    def read(self, text: Collection[int], numbers: Collection[int]) -> pd.DataFrame:
        wanted = sorted({*text, *numbers})
        names = [self._schema.names[column] for column in wanted]
        with _damage_named(self.path), open_regular(self.path) as file:
            table = pq.ParquetFile(file, read_dictionary=self._texts()).read(names, use_threads=False)
            if table.num_rows != self.rows:
                raise ValueError(f"it says that it has {self.rows:,} rows and holds {table.num_rows:,}")
            for column, name in zip(wanted, names, strict=True):
                if column not in text and pa.types.is_dictionary(table.schema.field(name).type):
                    at = table.schema.get_field_index(name)
                    table = table.set_column(at, name, _plain_text(table.column(name)))
            table = table.select(names).rename_columns([str(column) for column in wanted])
            frame: pd.DataFrame = table.to_pandas(
                ignore_metadata=True,
                date_as_object=False,
                split_blocks=True,
                self_destruct=True,
                use_threads=False,
            )
        frame.columns = pd.Index(wanted)
        frame.index = pd.RangeIndex(1, len(frame) + 1)
        return frame


def _plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers that are spelled as text. Each cell of the file may stand for any number of rows: long ones are refused."""
    longest = max(
        (len(str(value)) for chunk in column.chunks for value in chunk.dictionary.to_pylist()), default=0
    )
    if longest > LONGEST_CELL:
        raise ValueError(f"a cell holds {longest:,} characters")
    return column.cast(pa.string())


class _damage_named:
    """Around reading parquet: what pyarrow raises becomes one sentence about the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, TooLarge):
            raise UnusableFile(
                self._path, f"does not fit into memory ({error})", "give fewer days or symbols"
            ) from None
        if isinstance(error, (pa.ArrowException, OSError, ValueError)):
            reason = str(error).splitlines()[0]
            raise UnusableFile(
                self._path, f"is truncated or damaged parquet ({reason})", "copy it again from its source"
            ) from None
