"""The prices of a user's file as a run keeps them: one parquet file from which the same market comes out, bit for bit.

It holds the days that the run uses, as date, symbol and the known fields, one row for every day of every symbol, by
symbol in the market's order and then by date. Unknown values are NaN, so nothing is lost where nothing was listed. The
warnings about the file go with it, without its path. The same file gives the same bytes.
"""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eigen2.bounds import check_table, open_regular
from eigen2.errors import DamagedStateError
from eigen2.market.data import MarketData
from eigen2.market.findings import Finding
from eigen2.market.prices import FIELDS, Prices

FORMAT: Final = "1"
ROWS: Final = 1 << 18
"""Rows written and read at a time, unless one symbol has more: memory stays small beside the market itself."""


def kept_prices(market: MarketData) -> bytes | None:
    """The file; None for markets that the config describes completely."""
    if market.warnings is None:
        return None
    prices = Prices(
        market.dates, market.symbols, market.close, market.open, market.high, market.low, market.volume
    )
    schema = pa.schema(
        [("date", pa.date32()), ("symbol", pa.string()), *((name, pa.float64()) for name in prices.arrays())],
        metadata={"eigen2.prices": FORMAT, "eigen2.warnings": _spelled(market.warnings)},
    )
    out = io.BytesIO()
    with pq.ParquetWriter(out, schema, compression="zstd", use_dictionary=["symbol"]) as writer:
        step = max(1, ROWS // max(1, prices.days))
        for first in range(0, len(prices.symbols), step):
            writer.write_table(_table(prices, slice(first, first + step), schema))
    return out.getvalue()


def read_kept(path: Path, source: Path) -> tuple[Prices, list[Finding]]:
    """The prices and the warnings about them, as `read_prices(source)` gave them for the days that were kept."""
    try:
        with open_regular(path) as file:
            opened = pq.ParquetFile(file, read_dictionary=["symbol"])
            check_table(opened)
            return _read(opened, str(source))
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        ArithmeticError,
        AttributeError,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DamagedStateError(f"{path} does not hold the prices of a run ({reason})") from error


def _table(prices: Prices, chosen: slice, schema: pa.Schema) -> pa.Table:
    symbols = prices.symbols[chosen]
    number = np.repeat(np.arange(len(symbols), dtype=np.int32), prices.days)
    columns = [
        pa.array(np.tile(prices.dates.astype("datetime64[D]"), len(symbols))),
        pa.DictionaryArray.from_arrays(pa.array(number), pa.array(list(symbols))).cast(pa.string()),
        *(pa.array(array[:, chosen].T.ravel()) for array in prices.arrays().values()),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _read(file: pq.ParquetFile, source: str) -> tuple[Prices, list[Finding]]:
    notes = file.schema_arrow.metadata
    if notes[b"eigen2.prices"].decode() != FORMAT:
        raise ValueError("another version wrote it")
    symbols = tuple(file.read(["symbol"], use_threads=False)["symbol"].unique().to_pylist())
    days, rest = divmod(file.metadata.num_rows, len(symbols))
    if rest or None in symbols:
        raise ValueError("a symbol lacks days or its name")
    dates = np.empty(0, "datetime64[D]")
    names = [name for name in FIELDS if name in file.schema_arrow.names]
    arrays = {name: np.empty((days, len(symbols))) for name in names}
    first = 0
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, ["date", *names], use_threads=False)
        if table["date"].null_count:
            raise ValueError("a day lacks its date")
        if group == 0:
            dates = table["date"][:days].to_numpy().astype("datetime64[D]")
        chosen = slice(first, first + table.num_rows // days)
        for name in names:
            arrays[name][:, chosen] = table[name].to_numpy().reshape(-1, days).T
        first = chosen.stop
    return Prices(dates, symbols, **arrays), _findings(notes[b"eigen2.warnings"], source)


def _spelled(warnings: tuple[Finding, ...]) -> str:
    return json.dumps([replace(finding, file="").to_json() for finding in warnings], sort_keys=True)


def _findings(text: bytes, source: str) -> list[Finding]:
    return [Finding(**{**values, "file": source}) for values in json.loads(text)]
