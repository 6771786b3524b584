"""Loading the seed's shape, 3,888 days x 669 symbols, from parquet to standardised features: CPU and memory.

Each row is measured in a process of its own, so that its peak memory is its own.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DAYS, SYMBOLS = 3888, 669


def make_prices(directory: Path) -> dict[str, Path]:
    """A wide file of closes and a long file of OHLCV, ragged listings and gaps included."""
    from eigen2.market.canonical import long_table, wide_table
    from eigen2.market.prices import Prices

    random = np.random.default_rng(0)
    close = 100 * np.exp(np.cumsum(0.017 * random.standard_normal((DAYS, SYMBOLS)), axis=0))
    for column in range(0, SYMBOLS, 7):
        close[: random.integers(1, 2000), column] = np.nan
        close[2500:2504, column] = np.nan
    dates = np.busday_offset(np.datetime64("2008-01-02"), np.arange(DAYS))
    symbols = tuple(f"S{number:03d}" for number in range(SYMBOLS))
    spread = 1 + 0.01 * random.random((DAYS, SYMBOLS))
    volume = np.round(1e6 * random.random((DAYS, SYMBOLS)))
    full = Prices(dates, symbols, close, close, close * spread, close / spread, volume)
    files = {"wide closes": directory / "wide.parquet", "long OHLCV": directory / "long.parquet"}
    pq.write_table(wide_table(Prices(dates, symbols, close)), files["wide closes"])
    pq.write_table(long_table(full), files["long OHLCV"])
    return files


def measure(path: str, cache: str) -> None:
    """Loads one file and prints CPU seconds, peak RSS and the share of it that imports had taken before."""
    from eigen2.market.config import MarketConfig
    from eigen2.market.load import load_market

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    market = load_market(MarketConfig(data=path), seed=0, cache=Path(cache) if cache else None)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert np.isfinite(market.features).all()
    print(json.dumps({"cpu_seconds": seconds, "peak_mb": peak / 1024, "imports_mb": before / 1024}))


def main() -> None:
    pa.set_cpu_count(1)
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for kind, path in make_prices(directory).items():
            cache = str(directory / "cache")
            for label, argument in (
                ("no cache", ""),
                ("filling the cache", cache),
                ("from the cache", cache),
            ):
                command = [sys.executable, __file__, "measure", str(path), argument]
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                results[f"{kind}, {label}"] = json.loads(output)
    print(f"{DAYS} days x {SYMBOLS} symbols, 12 features\n{'':32} {'CPU s':>8} {'peak MB':>8}")
    for label, row in results.items():
        print(f"{label:32} {row['cpu_seconds']:8.2f} {row['peak_mb']:8.0f}")
    flat = {
        f"{label.replace(', ', '_').replace(' ', '_').lower()}_{key}": round(value, 3)
        for label, row in results.items()
        for key, value in row.items()
    }
    print(json.dumps({"bench": "market", **flat}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*sys.argv[2:])
    else:
        main()
