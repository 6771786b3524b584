"""The price files that come with the package."""

from importlib import resources

import numpy as np
import pyarrow.parquet as pq

from eigen2.market.catalogue import EMBEDDED
from eigen2.market.prices import FIELDS, Prices


def read_sample(name: str) -> Prices:
    """The prices of an embedded sample."""
    resource = resources.files("eigen2.market") / "samples" / f"{name}.parquet"
    with resource.open("rb") as file:
        table = pq.read_table(file)
    dates = table["date"].to_numpy().astype("datetime64[D]")
    if EMBEDDED[name].kind == "close":
        symbols = tuple(column for column in table.column_names if column != "date")
        close = np.column_stack([table[symbol].to_numpy() for symbol in symbols])
        return Prices(dates, symbols, np.ascontiguousarray(close))
    days, day = np.unique(dates, return_inverse=True)
    names, column = np.unique(table["symbol"].to_numpy().astype(str), return_inverse=True)
    arrays = {}
    for field in FIELDS:
        arrays[field] = np.full((len(days), len(names)), np.nan)
        arrays[field][day, column] = table[field].to_numpy()
    return Prices(days, tuple(str(symbol) for symbol in names), **arrays)
