"""How large a market is, before it is read: days, symbols and kinds of prices."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from eigen2.market.catalogue import EMBEDDED, canonical_name
from eigen2.market.config import MarketConfig

SYNTHETIC_START = np.datetime64("2000-01-03")


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


@dataclass(frozen=True)
class _Extent:
    days: int
    symbols: int
    prices: int
    first: np.datetime64
    last: np.datetime64

    def between(self, config: MarketConfig) -> int:
        """Days from `start` to `end`, if they lie evenly in the calendar."""
        try:
            start = max(self.first, np.datetime64(config.start, "D")) if config.start else self.first
            end = min(self.last, np.datetime64(config.end, "D")) if config.end else self.last
        except ValueError:
            return self.days
        span = int((self.last - self.first).astype(int)) + 1
        return min(self.days, max(1, round(self.days * (int((end - start).astype(int)) + 1) / span)))


def market_shape(config: MarketConfig, kept: Path | None = None) -> MarketShape | None:
    """None where only reading the prices will tell, e.g. because something is wrong with them."""
    name = canonical_name(config.data)
    if name is None:
        path = kept or Path(config.data).expanduser()
        try:
            extent = _file_extent(path, path.stat().st_mtime_ns, config.day_first)
        except OSError:
            return None
        if extent is None:
            return None
    else:
        extent = _known_extent(name, config)
    days = extent.days if (config.start, config.end) == (None, None) else extent.between(config)
    symbols = extent.symbols
    chosen = len(config.tradable) if config.tradable is not None else symbols - len(config.context)
    return MarketShape(days, symbols, max(1, min(chosen, symbols)), extent.prices, name is None)


def _known_extent(name: str, config: MarketConfig) -> _Extent:
    source = config.synthetic.source if name == "shuffled" else name
    if source in EMBEDDED:
        sample = EMBEDDED[source]
        kinds = 5 if sample.kind == "ohlcv" else 1
        return _Extent(
            sample.days, sample.symbols, kinds, np.datetime64(sample.first), np.datetime64(sample.last)
        )
    made = config.synthetic
    last = np.busday_offset(SYNTHETIC_START, made.days - 1)
    return _Extent(made.days, made.symbols, 1, SYNTHETIC_START, last)


@lru_cache(maxsize=8)
def _file_extent(path: Path, changed: int, day_first: bool | None) -> _Extent | None:
    """None for a file that cannot be read; `changed` tells one version of it from another."""
    from eigen2.market.extent import file_extent
    from eigen2.market.findings import UnusableFile
    from eigen2.market.table import Rules

    try:
        found = file_extent(path, Rules(day_first))
    except UnusableFile:
        return None
    return None if found is None else _Extent(*found)
