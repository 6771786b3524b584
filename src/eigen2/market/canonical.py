"""`eigen2 data build SOURCE OUT`: any readable price file -> one canonical parquet file that loads fast."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eigen2.errors import DataError
from eigen2.market.check import EXACT, read_prices
from eigen2.market.findings import Finding
from eigen2.market.prices import Prices
from eigen2.market.table import Rules


def write_canonical(source: Path, out: Path, rules: Rules = EXACT) -> tuple[Prices, list[Finding]]:
    """Reads, checks and writes; returns the prices and the warnings. Nothing is written if there is an error."""
    prices, warnings = read_prices(source, rules)
    if not out.parent.is_dir():
        raise DataError(f"{out.parent} is not a directory; make it first, or write somewhere else")
    table = wide_table(prices) if set(prices.arrays()) == {"close"} else long_table(prices)
    _write(table, out)
    return prices, warnings


def wide_table(prices: Prices) -> pa.Table:
    """date, then one column of closes per symbol."""
    closes = {
        symbol: pa.array(prices.close[:, i], from_pandas=True) for i, symbol in enumerate(prices.symbols)
    }
    return pa.table({"date": pa.array(prices.dates.astype("datetime64[D]")), **closes})


def long_table(prices: Prices) -> pa.Table:
    """date, symbol and the known fields, one row per listed and known day, by date and then symbol."""
    day, column = np.nonzero(prices.mask)
    symbols = pa.DictionaryArray.from_arrays(
        pa.array(column.astype(np.int32)), pa.array(list(prices.symbols))
    )
    columns = {"date": pa.array(prices.dates.astype("datetime64[D]")[day]), "symbol": symbols}
    for name in ("open", "high", "low", "close", "volume"):
        array = prices.arrays().get(name)
        if array is not None:
            columns[name] = pa.array(array[day, column], from_pandas=True)
    return pa.table(columns)


def _write(table: pa.Table, out: Path) -> None:
    """To a temporary name, then renamed: a reader sees the whole file or none."""
    descriptor, temporary = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, out)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
