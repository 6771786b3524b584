"""Raw prices on one calendar, as read or generated: what features and environments are made from."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eigen2.market.data import FloatArray

FIELDS = ("close", "open", "high", "low", "volume")


@dataclass(frozen=True)
class Prices:
    """Arrays are [day, symbol] float64 with NaN where a value is unknown; `dates` ascend without duplicates."""

    dates: npt.NDArray[np.datetime64]
    symbols: tuple[str, ...]
    close: FloatArray
    open: FloatArray | None = None
    high: FloatArray | None = None
    low: FloatArray | None = None
    volume: FloatArray | None = None

    @property
    def days(self) -> int:
        return len(self.dates)

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """[day, symbol] listed and known."""
        known: npt.NDArray[np.bool_] = np.isfinite(self.close)
        return known

    def rows(self, start: int, stop: int) -> "Prices":
        """The days [start, stop)."""
        if start == 0 and stop == self.days:
            return self
        arrays = {name: array[start:stop] for name, array in self.arrays().items()}
        return Prices(self.dates[start:stop], self.symbols, **arrays)

    def arrays(self) -> dict[str, FloatArray]:
        """The fields that are known, by name, in a fixed order."""
        found = {name: getattr(self, name) for name in FIELDS}
        return {name: array for name, array in found.items() if array is not None}

    def fingerprint(self) -> str:
        """SHA-256 over dates, symbols and prices: equal on every machine, different if any value differs."""
        # Adding zero turns -0.0 into 0.0; every NaN becomes the same NaN.
        return self._hashed({k: np.where(np.isnan(a), np.nan, a + 0.0) for k, a in self.arrays().items()})

    def rounded_fingerprint(self) -> str:
        """The same over four significant digits: equal where only the last bits of generated prices differ."""
        return self._hashed({name: four_digits(array) for name, array in self.arrays().items()})

    def _hashed(self, arrays: Mapping[str, FloatArray]) -> str:
        digest = hashlib.sha256()
        digest.update(f"prices 1 {self.days} {len(self.symbols)}\n".encode())
        digest.update(self.dates.astype("datetime64[D]").astype("<i8").tobytes())
        for symbol in self.symbols:
            encoded = symbol.encode()
            digest.update(len(encoded).to_bytes(4, "little") + encoded)
        for name, array in arrays.items():
            digest.update(f"\n{name}\n".encode())
            digest.update(np.ascontiguousarray(array.astype("<f8", copy=False)).data)
        return digest.hexdigest()


def four_digits(values: FloatArray) -> FloatArray:
    """`values` to four significant digits, by exact arithmetic; unknown ones are NaN."""
    fraction, exponent = np.frexp(values)
    # The offset keeps round prices, such as 100, off the edge between two roundings.
    rounded: FloatArray = np.ldexp(np.round(fraction * 10_000 + 0.1234), exponent)
    return np.where(np.isnan(values), np.nan, rounded)
