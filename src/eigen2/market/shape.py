"""How large a market is, before it is read: days, symbols and kinds of prices."""

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from eigen2.market.catalogue import EMBEDDED, canonical_name
from eigen2.market.config import MarketConfig

PRICES = ("open", "high", "low", "volume")
"""What a file may have beside the close."""


@dataclass(frozen=True)
class MarketShape:
    days: int
    symbols: int
    tradable: int
    prices: int = 1
    """Kinds of prices: the close alone, or open, high, low and volume beside it."""
    is_file: bool = False

    @property
    def cells(self) -> int:
        return self.days * self.symbols


def market_shape(config: MarketConfig, kept: Path | None = None) -> MarketShape | None:
    """None where only reading the prices will tell, e.g. because something is wrong with them."""
    name = canonical_name(config.data)
    if name is None:
        path = kept or Path(config.data).expanduser()
        try:
            found = _file_shape(path, path.stat().st_mtime_ns)
        except (OSError, ValueError, LookupError, csv.Error):
            return None
        days, symbols, prices = found
    else:
        source = config.synthetic.source if name == "shuffled" else name
        if source in EMBEDDED:
            sample = EMBEDDED[source]
            days, symbols, prices = sample.days, sample.symbols, 5 if sample.kind == "ohlcv" else 1
        else:
            days, symbols, prices = config.synthetic.days, config.synthetic.symbols, 1
    if (config.start, config.end) != (None, None):
        days = _days_between(config, days)
    chosen = len(config.tradable) if config.tradable is not None else symbols - len(config.context)
    return MarketShape(days, symbols, max(1, min(chosen, symbols)), prices, name is None)


def _days_between(config: MarketConfig, days: int) -> int:
    """Trading days from `start` to `end`, at most; 252 in a year."""
    try:
        first = np.datetime64(config.start or "1900-01-01", "D")
        last = np.datetime64(config.end or "2100-01-01", "D")
    except ValueError:
        return days
    return min(days, max(1, round(int((last - first).astype(int)) * 252 / 365.25)))


@lru_cache(maxsize=8)
def _file_shape(path: Path, changed: int) -> tuple[int, int, int]:
    """Days, symbols and kinds of prices; `changed` tells one version of a file from another."""
    with path.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    return _parquet_shape(path) if is_parquet else _csv_shape(path)


def _parquet_shape(path: Path) -> tuple[int, int, int]:
    import pyarrow.parquet as pq

    with path.open("rb") as stream:
        file = pq.ParquetFile(stream)
        labels = {str(name).lower(): str(name) for name in file.schema_arrow.names}
        rows = int(file.metadata.num_rows)
        if "symbol" not in labels:
            return rows, max(1, len(labels) - 1), 1
        columns = file.read([labels["symbol"], labels["date"]], use_threads=False)
        symbols, dates = (len(column.unique()) for column in columns.itercolumns())
    return dates, symbols, _kinds(labels)


def _csv_shape(path: Path) -> tuple[int, int, int]:
    with path.open(encoding="utf-8-sig", newline="") as text:
        header = next(csv.reader(text), [])
    labels = {name.strip().lower(): name for name in header}
    with path.open("rb") as file:
        rows = sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b"")) - 1
    if "symbol" not in labels:
        return max(1, rows), max(1, len(header) - 1), 1
    symbol, date = (header.index(labels[name]) for name in ("symbol", "date"))
    symbols, dates = set[str](), set[str]()
    with path.open(encoding="utf-8-sig", newline="") as text:
        lines = csv.reader(text)
        next(lines)
        for row in lines:
            symbols.add(row[symbol])
            dates.add(row[date])
    return len(dates), len(symbols), _kinds(labels)


def _kinds(labels: dict[str, str]) -> int:
    return 1 + sum(name in labels for name in PRICES)
