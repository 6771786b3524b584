"""Prices in the form of `yf.download([...]).to_csv(...)`, made up: for pages and tests that need a file and no network.

    python examples/prices_like_yfinance.py prices.csv --days 1200

A file with more days begins with the same days, as tomorrow's download does.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

TICKERS = ["AAPL", "IBM", "JNJ", "KO", "MSFT", "XOM"]
LONGEST = 4000


def download(days: int) -> pd.DataFrame:
    """Columns (Price, Ticker) and an index of dates, as yfinance gives them."""
    random = np.random.default_rng(11)
    shape = (LONGEST, len(TICKERS))
    market = 0.0003 + 0.008 * random.standard_t(5, (LONGEST, 1))
    close = 90 * np.exp(np.cumsum(market + 0.01 * random.standard_normal(shape), axis=0))
    opened = np.vstack([close[:1], close[:-1]]) * np.exp(0.003 * random.standard_normal(shape))
    high = np.maximum(opened, close) * np.exp(0.005 * random.random(shape))
    low = np.minimum(opened, close) * np.exp(-0.005 * random.random(shape))
    volume = np.round(3e6 * np.exp(0.3 * random.standard_normal(shape)))
    fields = {"Close": close, "High": high, "Low": low, "Open": opened, "Volume": volume}
    columns = pd.MultiIndex.from_product([fields, TICKERS], names=["Price", "Ticker"])
    dates = pd.bdate_range("2016-01-04", periods=LONGEST, name="Date")
    return pd.DataFrame(np.hstack(list(fields.values())), dates, columns).head(days)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--days", type=int, default=1200)
    arguments = parser.parse_args()
    download(arguments.days).to_csv(arguments.file)


if __name__ == "__main__":
    main()
