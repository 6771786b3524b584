"""Tables as parquet bytes: what evaluations leave behind for reports."""

import io
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt


def to_parquet(columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), target)
    return target.getvalue()


def from_parquet(content: bytes) -> dict[str, npt.NDArray[Any]]:
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    return {name: table.column(name).to_numpy() for name in table.column_names}
