"""Tables as parquet bytes: what evaluations leave behind for reports."""

import io
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from eigen2.bounds import LONGEST_CELL, check_table


def to_parquet(columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), target)
    return target.getvalue()


def to_csv(columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Numbers so that they read back as they were."""
    import pyarrow as pa
    import pyarrow.csv as pc

    target = io.BytesIO()
    options = pc.WriteOptions(quoting_style="needed")
    pc.write_csv(pa.table({name: pa.array(column) for name, column in columns.items()}), target, options)
    return target.getvalue()


def from_parquet(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """The columns; ValueError when they do not fit into memory or are no columns of numbers and words."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(io.BytesIO(content))
    check_table(file)
    if any(pa.types.is_nested(field.type) for field in file.schema_arrow):
        raise ValueError("a column holds lists or records")
    texts = [field.name for field in file.schema_arrow if pa.types.is_string(field.type)]
    table = pq.ParquetFile(io.BytesIO(content), read_dictionary=texts).read(use_threads=False)
    for name in texts:
        longest = max(
            (len(text or "") for part in table[name].chunks for text in part.dictionary.to_pylist()),
            default=0,
        )
        if longest > LONGEST_CELL:
            raise ValueError(f"a cell of {name} holds {longest:,} characters")
    return {name: table.column(name).to_numpy() for name in table.column_names}
