"""What was read from files: prices, where each of them stands, and in which layout."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eigen2.market.prices import Prices


@dataclass(frozen=True)
class Grid:
    """Prices, where in the files each of them stands, and what kind of file it was."""

    prices: Prices
    rows: npt.NDArray[np.int64]
    """[day, symbol] row in the file; 0 where the file has none. Broadcast for wide files."""
    source: str
    """The layout in words, e.g. `CSV, wide closes`."""
    files: tuple[str, ...]
    """[symbol] the file it was read from."""
