"""From a file to a table of named columns. Looks at the first bytes, believes no extension, unpickles nothing."""

import csv
import io
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from eigen2.market.findings import UnusableFile
from eigen2.market.headers import check_labels, refuse_second_header

CSV_OR_PARQUET: Final = "give a CSV or parquet file"

_FOREIGN: Final = (
    (b"\x1f\x8b", "is compressed with gzip", "unpack it first, or save it as parquet"),
    (b"(\xb5/\xfd", "is compressed with zstd", "unpack it first, or save it as parquet"),
    (b"PK\x03\x04", "is a zip archive or an Excel workbook", "export the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "is an old Excel workbook", "export the sheet as CSV"),
    (b"\x89HDF", "is an HDF5 file", CSV_OR_PARQUET),
    (b"ARROW1", "is a Feather file", "save it as parquet"),
    (b"SQLite format 3", "is a SQLite database", "export the table as CSV"),
    (b"\x93NUMPY", "is a NumPy array without column names", CSV_OR_PARQUET),
)
_PARQUET: Final = b"PAR1"
_BINARY_PICKLE: Final = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))


@dataclass(frozen=True)
class Table:
    """Columns as read. The frame's index holds the rows' numbers in the file; labels are unique and not empty."""

    path: Path
    frame: pd.DataFrame


def read_table(path: Path) -> Table:
    """Raises UnusableFile with a sentence when there is no table in the file."""
    if path.is_dir():
        raise UnusableFile(path, "is a directory", "name the file inside it")
    try:
        with path.open("rb") as file:
            head = file.read(64)
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
        return _read_parquet(path)
    if path.suffix.lower() in {".parquet", ".pq"}:
        raise UnusableFile(
            path, "is named parquet but is not (its first bytes are not PAR1)", "export it again"
        )
    return _read_csv(path)


def _read_parquet(path: Path) -> Table:
    try:
        # A file handle, not a path: pyarrow would read partition keys out of the directory names.
        with path.open("rb") as file:
            labels = pq.ParquetFile(file).schema_arrow.names
            check_labels(path, labels, row=None)
            repeated = [label for label in labels if label.lower() == "symbol"]
            table = pq.ParquetFile(file, read_dictionary=repeated).read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UnusableFile(
            path, f"is truncated or damaged parquet ({reason})", "copy it again from its source"
        ) from None
    if table.num_rows == 0:
        raise UnusableFile(path, "has columns but no rows", "add one row per day")
    nested = [field.name for field in table.schema if pa.types.is_nested(field.type)]
    if nested:
        raise UnusableFile(path, f"column {nested[0]} holds lists or records", "store one number per cell")
    frame = table.to_pandas(
        ignore_metadata=True, date_as_object=False, split_blocks=True, self_destruct=True, use_threads=False
    )
    frame.columns = pd.Index([str(label).strip() for label in frame.columns])
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    return Table(path, frame)


def _read_csv(path: Path) -> Table:
    text = _decode(path)
    if not text.strip():
        raise UnusableFile(path, "holds nothing but blanks", CSV_OR_PARQUET)
    labels = _check_lines(path, text)
    frame = pd.read_csv(
        io.StringIO(text),
        header=0,
        names=labels,
        index_col=False,
        skip_blank_lines=False,
        skipinitialspace=True,
        low_memory=False,
        dtype={label: "str" for label in labels if label.lower() in {"date", "symbol"}},
        # Only what cannot be a word: a symbol may well be called NA or NULL.
        keep_default_na=False,
        na_values=["", "nan", "NaN", "NAN"],
    )
    frame.index = pd.RangeIndex(2, len(frame) + 2)
    frame = frame.dropna(how="all")
    if frame.empty:
        raise UnusableFile(path, "has a header but no rows", "add one row per day")
    return Table(path, frame)


def _decode(path: Path) -> str:
    content = path.read_bytes()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnusableFile(path, "is UTF-16 text", "save it as UTF-8")
    if b"\x00" in content:
        raise UnusableFile(path, "is neither text nor parquet", CSV_OR_PARQUET)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnusableFile(path, "is not UTF-8 text", "save it with the encoding UTF-8", line) from None


def _check_lines(path: Path, text: str) -> list[str]:
    """The header's labels; every line must have as many fields."""
    reader = csv.reader(io.StringIO(text), skipinitialspace=True)
    try:
        labels = [label.strip() for label in next(reader)]
        if len(labels) < 2:
            _explain_single_column(path, labels)
        second = next(reader, [])
        refuse_second_header(path, labels, second)
        check_labels(path, labels, row=1)
        for fields in chain([second], reader):
            if fields and len(fields) != len(labels):
                problem = f"has {len(fields)} fields where the header has {len(labels)}"
                raise UnusableFile(path, problem, "repair or remove this line", reader.line_num)
    except csv.Error as error:
        raise UnusableFile(path, f"is not a CSV table ({error})", CSV_OR_PARQUET, reader.line_num) from None
    return labels


def _explain_single_column(path: Path, labels: list[str]) -> None:
    header = labels[0] if labels else ""
    for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if separator in header:
            raise UnusableFile(path, f"separates its columns by {name}", "separate them by commas", 1)
    raise UnusableFile(
        path,
        "is not a table: its first line has a single field",
        "start with a header: date, SYM1, SYM2, ...",
        1,
    )
