"""Raw prices on one calendar, as read or generated: what features and environments are made from."""

import hashlib
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
        digest = hashlib.sha256()
        digest.update(f"prices 1 {self.days} {len(self.symbols)}\n".encode())
        digest.update(self.dates.astype("datetime64[D]").astype("<i8").tobytes())
        for symbol in self.symbols:
            encoded = symbol.encode()
            digest.update(len(encoded).to_bytes(4, "little") + encoded)
        for name, array in self.arrays().items():
            digest.update(f"\n{name}\n".encode())
            # Adding zero turns -0.0 into 0.0; every NaN becomes the same NaN.
            canonical = np.where(np.isnan(array), np.nan, array + 0.0).astype("<f8", copy=False)
            digest.update(np.ascontiguousarray(canonical).data)
        return digest.hexdigest()
