"""One immutable market: raw prices, causal features, and a mask of what was listed and known."""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eigen2.market.findings import Finding
from eigen2.market.frequency import Frequency, frequency_of

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """A run of days [start, stop) on which decisions may be taken and filled."""

    name: str
    start: int
    stop: int

    @property
    def days(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class MarketData:
    """Everything known about a market. Arrays are read-only; nothing here depends on a portfolio.

    Unknown prices are NaN in the raw arrays and False in `mask`; features are zero there, and always finite.
    Close-only files have `open`, `high`, `low` and `volume` set to None.
    """

    name: str
    dates: npt.NDArray[np.datetime64]
    """[day]"""
    symbols: tuple[str, ...]
    tradable: npt.NDArray[np.int64]
    """[tradable] positions of the tradable symbols in `symbols`, ascending."""
    close: FloatArray
    """[day, symbol]"""
    open: FloatArray | None
    high: FloatArray | None
    low: FloatArray | None
    volume: FloatArray | None
    mask: npt.NDArray[np.bool_]
    """[day, symbol] listed and known on that day."""
    features: npt.NDArray[np.float32]
    """[day, symbol, feature], standardised with statistics of the training days, zero where masked."""
    feature_names: tuple[str, ...]
    train: Split
    validation: Split
    holdout: Split
    fingerprint: str
    """SHA-256 over dates, symbols and raw prices."""
    caveats: tuple[str, ...] = ()
    warnings: tuple[Finding, ...] | None = None
    """What the check of the user's file found; None for a market that the config describes completely."""

    rounded_fingerprint: str = ""
    """`fingerprint` of four significant digits, of prices that are computed from the config and the seed: their last bits may
    depend on the processor."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @cached_property
    def frequency(self) -> Frequency:
        """How often there are prices, from the calendar."""
        return frequency_of(self.dates)

    @property
    def periods_per_year(self) -> int:
        """Days (weeks, months) of this market in a year: what every annual figure is computed with."""
        return self.frequency.periods_per_year

    @property
    def nbytes(self) -> int:
        columns = (getattr(self, field.name) for field in fields(self))
        return sum(column.nbytes for column in columns if isinstance(column, np.ndarray))

    def split(self, name: str) -> Split:
        return {"train": self.train, "validation": self.validation, "holdout": self.holdout}[name]
