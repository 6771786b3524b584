"""Price files as data vendors document them, and files that must not be read: each written from the same made-up prices.

`python tests/market/vendors/price_corpus.py DIRECTORY` writes them all, to look at.
"""

import gzip
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

DAYS = 160
SYMBOLS = ("AAPL", "IBM", "MSFT")
OHLC = ["Open", "High", "Low", "Close"]


@dataclass(frozen=True)
class Truth:
    """What every file of the corpus holds. [day, symbol], to the last bit."""

    dates: pd.DatetimeIndex
    open: np.ndarray
    high: np.ndarray
    low: np.ndarray
    close: np.ndarray
    volume: np.ndarray

    def of(self, symbol: str) -> pd.DataFrame:
        """Date, Open, High, Low, Close, Volume of one symbol."""
        column = SYMBOLS.index(symbol)
        fields = {
            name.capitalize(): getattr(self, name)[:, column] for name in ("open", "high", "low", "close")
        }
        volume = self.volume[:, column].astype(np.int64)
        return pd.DataFrame({"Date": self.dates, **fields, "Volume": volume})

    def long(self) -> pd.DataFrame:
        """All symbols, by symbol and date, with a column Symbol."""
        return pd.concat([self.of(symbol).assign(Symbol=symbol) for symbol in SYMBOLS], ignore_index=True)

    def closes(self) -> pd.DataFrame:
        return pd.DataFrame(self.close, self.dates.rename("Date"), list(SYMBOLS))

    def downloaded(self, adj: bool = False) -> pd.DataFrame:
        """As `yf.download([...])` gives it: columns (Price, Ticker)."""
        fields = (["Adj Close"] if adj else []) + ["Close", "High", "Low", "Open", "Volume"]
        columns = pd.MultiIndex.from_product([fields, SYMBOLS], names=["Price", "Ticker"])
        source = {"Adj Close": "Close"}
        data = {
            (field, symbol): self.of(symbol)[source.get(field, field)].to_numpy() for field, symbol in columns
        }
        return pd.DataFrame(data, self.dates.rename("Date")).set_axis(columns, axis=1)


def truth(seed: int = 5) -> Truth:
    """Daily bars from 2019-12-02 on, over a change of clocks: full-precision prices as adjustment leaves them."""
    random = np.random.default_rng(seed)
    shape = (DAYS, len(SYMBOLS))
    close = 80 * np.exp(np.cumsum(0.015 * random.standard_normal(shape), axis=0))
    before = np.vstack([close[:1], close[:-1]])
    opened = before * np.exp(0.004 * random.standard_normal(shape))
    high = np.maximum(opened, close) * np.exp(0.006 * random.random(shape))
    low = np.minimum(opened, close) * np.exp(-0.006 * random.random(shape))
    volume = np.round(2e6 * np.exp(0.4 * random.standard_normal(shape)))
    return Truth(pd.bdate_range("2019-12-02", periods=DAYS), opened, high, low, close, volume)


Writer = Callable[[Truth, Path], Path]
"""Writes into a directory; returns the file or folder."""

LAYOUTS: dict[str, Writer] = {}
CLOSES_ONLY: set[str] = set()
"""Layouts that hold no open, high, low and volume."""
SINGLE: set[str] = set()
"""Layouts that hold AAPL alone."""


def layout(name: str, *, closes: bool = False, single: bool = False) -> Callable[[Writer], Writer]:
    def add(writer: Writer) -> Writer:
        LAYOUTS[name] = writer
        CLOSES_ONLY.update([name] if closes else [])
        SINGLE.update([name] if single else [])
        return writer

    return add


def text(path: Path, content: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(content.encode(encoding))
    return path


def csv(frame: "pd.DataFrame | pd.Series[Any]", path: Path, **options: object) -> Path:
    frame.to_csv(path, **options)  # type: ignore[call-overload]
    return path


def parquet(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_parquet(path)
    return path


@layout("wide CSV", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes(), d / "p.csv")


@layout("wide parquet", closes=True)
def _(t: Truth, d: Path) -> Path:
    return parquet(t.closes(), d / "p.parquet")


@layout("wide, semicolons and decimal commas", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes(), d / "p.csv", sep=";", decimal=",")


@layout("wide, tabs", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes(), d / "p.tsv", sep="\t")


@layout("wide, newest first", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes()[::-1], d / "p.csv")


@layout("wide, gzip", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes(), d / "p.csv.gz")


@layout("wide, BOM and CRLF", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes(), d / "p.csv", encoding="utf-8-sig", lineterminator="\r\n")


@layout("wide, dates in a nameless index", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes().rename_axis(None), d / "p.csv")


@layout("wide, row numbers in a nameless index", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes().reset_index(), d / "p.csv")


@layout("wide, nameless index in parquet", closes=True)
def _(t: Truth, d: Path) -> Path:
    return parquet(t.closes().rename_axis(None), d / "p.parquet")


@layout("wide, German dates", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes(), d / "p.csv", sep=";", decimal=",", date_format="%d.%m.%Y")


@layout("wide, American dates", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes(), d / "p.csv", date_format="%m/%d/%Y")


@layout("wide, British dates", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes(), d / "p.csv", date_format="%d/%m/%Y")


@layout("wide, months by name", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes(), d / "p.csv", date_format="%d-%b-%Y")


@layout("wide, midnight in New York", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes().tz_localize("America/New_York"), d / "p.csv")


@layout("wide, midnight in Berlin told in UTC", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes().tz_localize("Europe/Berlin").tz_convert("UTC"), d / "p.csv")


@layout("wide, midnight in Tokyo, parquet", closes=True)
def _(t: Truth, d: Path) -> Path:
    return parquet(t.closes().tz_localize("Asia/Tokyo"), d / "p.parquet")


@layout("wide, stamped with the close", closes=True)
def _(t: Truth, d: Path) -> Path:
    frame = t.closes()
    return csv(frame.set_axis(frame.index + pd.Timedelta(hours=16), axis=0).rename_axis("Date"), d / "p.csv")


@layout("wide, blank lines and comments", closes=True)
def _(t: Truth, d: Path) -> Path:
    lines = t.closes().to_csv().splitlines()
    return text(d / "p.csv", "# closes\n" + "\n".join([*lines[:9], "", *lines[9:], "", "  "]) + "\n")


@layout("wide, thousands separators in quotes", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes().map(lambda value: f"{value:,}"), d / "p.csv")


@layout("yfinance, three header lines")
def _(t: Truth, d: Path) -> Path:
    return csv(t.downloaded(), d / "p.csv")


@layout("yfinance before 0.2.40, nameless levels and Adj Close")
def _(t: Truth, d: Path) -> Path:
    nameless = t.downloaded(adj=True).rename_axis(columns=[None, None])  # type: ignore[list-item]
    return csv(nameless, d / "p.csv")


@layout("yfinance, group_by ticker")
def _(t: Truth, d: Path) -> Path:
    return csv(t.downloaded().swaplevel(axis=1).sort_index(axis=1), d / "p.csv")


@layout("yfinance, one ticker, three header lines", single=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.downloaded().xs("AAPL", axis=1, level=1, drop_level=False), d / "p.csv")


@layout("yfinance, one ticker", single=True)
def _(t: Truth, d: Path) -> Path:
    frame = t.of("AAPL")
    frame.insert(5, "Adj Close", frame["Close"])
    return csv(frame, d / "AAPL.csv", index=False)


@layout("yfinance, Ticker.history", single=True)
def _(t: Truth, d: Path) -> Path:
    frame = t.of("AAPL").set_index("Date").tz_localize("America/New_York")
    return csv(frame.assign(**{"Dividends": 0.0, "Stock Splits": 0.0}), d / "AAPL.csv")


@layout("yfinance, to_parquet")
def _(t: Truth, d: Path) -> Path:
    return parquet(t.downloaded(), d / "p.parquet")


@layout("yfinance, to_parquet, group_by ticker")
def _(t: Truth, d: Path) -> Path:
    return parquet(t.downloaded().swaplevel(axis=1), d / "p.parquet")


@layout("yfinance, reset_index and to_parquet")
def _(t: Truth, d: Path) -> Path:
    return parquet(t.downloaded().reset_index(), d / "p.parquet")


@layout("yfinance, reset_index and to_csv")
def _(t: Truth, d: Path) -> Path:
    return csv(t.downloaded().reset_index(), d / "p.csv")


@layout("yfinance, stacked")
def _(t: Truth, d: Path) -> Path:
    return csv(t.downloaded(adj=True).stack(level=1), d / "p.csv")


@layout("yfinance, Close alone", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.downloaded()["Close"], d / "p.csv")


@layout("joined names, flattened by the user")
def _(t: Truth, d: Path) -> Path:
    frame = t.downloaded(adj=True)
    return csv(frame.set_axis(["_".join(pair) for pair in frame.columns], axis=1), d / "p.csv")


@layout("quantmod")
def _(t: Truth, d: Path) -> Path:
    frame = t.downloaded(adj=True).rename(columns={"Adj Close": "Adjusted"})
    pairs: list[tuple[str, str]] = list(frame.columns)  # type: ignore[arg-type]
    names = [f"{symbol}.{field}" for field, symbol in pairs]
    return csv(frame.set_axis(names, axis=1).rename_axis(""), d / "p.csv")


@layout("Stooq, one symbol", single=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.of("AAPL"), d / "AAPL.csv", index=False)


def stooq(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "<TICKER>": frame["Symbol"],
            "<PER>": "D",
            "<DATE>": frame["Date"].dt.strftime("%Y%m%d"),
            "<TIME>": "000000",
            **{f"<{name.upper()}>": frame[name] for name in OHLC},
            "<VOL>": frame["Volume"],
            "<OPENINT>": 0,
        }
    )


@layout("Stooq, bulk file")
def _(t: Truth, d: Path) -> Path:
    return csv(stooq(t.long()), d / "p.txt", index=False)


@layout("Stooq, bulk folder")
def _(t: Truth, d: Path) -> Path:
    for symbol in SYMBOLS:
        csv(stooq(t.of(symbol).assign(Symbol=symbol)), d / f"{symbol.lower()}.us.txt", index=False)
    return d


@layout("FinRL")
def _(t: Truth, d: Path) -> Path:
    frame = t.long().rename(columns={"Symbol": "tic"}).rename(columns=str.lower)
    frame = frame.assign(day=frame["date"].dt.day_of_week).sort_values(["date", "tic"], ignore_index=True)
    return csv(frame, d / "p.csv")


@layout("ccxt, one symbol", single=True)
def _(t: Truth, d: Path) -> Path:
    frame = t.of("AAPL").rename(columns={"Date": "timestamp"}).rename(columns=str.lower)
    frame["timestamp"] = frame["timestamp"].to_numpy().astype("datetime64[ms]").astype(np.int64)
    return csv(frame, d / "AAPL.csv", index=False)


@layout("ccxt, several symbols, timestamp and datetime, parquet")
def _(t: Truth, d: Path) -> Path:
    frame = t.long().rename(columns=str.lower).rename(columns={"date": "datetime"})
    frame.insert(0, "timestamp", frame["datetime"].to_numpy().astype("datetime64[ms]").astype(np.int64))
    return parquet(frame, d / "p.parquet")


def alpaca(t: Truth) -> pd.DataFrame:
    frame = t.long().rename(columns=str.lower).rename(columns={"date": "timestamp"})
    frame["timestamp"] = frame["timestamp"].dt.tz_localize("America/New_York").dt.tz_convert("UTC")
    frame = frame.assign(trade_count=1000.0, vwap=frame["close"])
    return frame.set_index(["symbol", "timestamp"])


@layout("Alpaca, bars.df.to_csv")
def _(t: Truth, d: Path) -> Path:
    return csv(alpaca(t), d / "p.csv")


@layout("Alpaca, bars.df.to_parquet")
def _(t: Truth, d: Path) -> Path:
    return parquet(alpaca(t), d / "p.parquet")


@layout("Alpaca, raw bars", single=True)
def _(t: Truth, d: Path) -> Path:
    frame = alpaca(t).loc["AAPL"].reset_index()
    names = {"timestamp": "t", "open": "o", "high": "h", "low": "l", "close": "c", "volume": "v"}
    frame["timestamp"] = frame["timestamp"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    return csv(frame.rename(columns={**names, "trade_count": "n", "vwap": "vw"}), d / "AAPL.csv", index=False)


@layout("Kaggle, all_stocks_5yr")
def _(t: Truth, d: Path) -> Path:
    frame = t.long().rename(columns=str.lower).rename(columns={"symbol": "Name"})
    return csv(frame, d / "all_stocks_5yr.csv", index=False)


@layout("long, ticker and datetime, bars")
def _(t: Truth, d: Path) -> Path:
    frame = t.long().rename(columns={"Symbol": "Ticker", "Date": "Datetime"})
    return csv(frame, d / "p.csv", index=False, sep="|")


@layout("long, newest first, semicolons, decimal commas, gzip")
def _(t: Truth, d: Path) -> Path:
    frame = t.long().sort_values(["Date", "Symbol"], ascending=False)
    return csv(frame, d / "p.csv.gz", index=False, sep=";", decimal=",")


@layout("a folder of one CSV per symbol")
def _(t: Truth, d: Path) -> Path:
    for symbol in SYMBOLS:
        csv(t.of(symbol), d / f"{symbol}.csv", index=False)
    text(d / "README.md", "one file per symbol\n")
    return d


@layout("a folder of yfinance files, three header lines each")
def _(t: Truth, d: Path) -> Path:
    for symbol in SYMBOLS:
        csv(t.downloaded().xs(symbol, axis=1, level=1, drop_level=False), d / f"{symbol}.csv")
    return d


@layout("a folder of gzip files, newest first")
def _(t: Truth, d: Path) -> Path:
    for symbol in SYMBOLS:
        (d / f"{symbol}.csv.gz").write_bytes(gzip.compress(t.of(symbol)[::-1].to_csv(index=False).encode()))
    return d


@layout("Tiingo", single=True)
def _(t: Truth, d: Path) -> Path:
    frame = t.of("AAPL").rename(columns=str.lower)
    adj = {f"adj{name}": frame[name.lower()] for name in ("Close", "High", "Low", "Open", "Volume")}
    doubled = {name: 2 * frame[name] for name in ("close", "high", "low", "open")}
    frame = frame.assign(**doubled, **adj, divCash=0.0, splitFactor=1.0)
    frame["date"] = frame["date"].dt.tz_localize("UTC")
    return csv(frame, d / "AAPL.csv", index=False, date_format="%Y-%m-%dT%H:%M:%S.000Z")


@layout("Alpha Vantage", single=True)
def _(t: Truth, d: Path) -> Path:
    frame = t.of("AAPL").rename(columns=str.lower).rename(columns={"date": "timestamp"})
    frame.insert(5, "adjusted_close", frame["close"])
    frame = frame.assign(dividend_amount=0.0, split_coefficient=1.0)
    return csv(frame[::-1], d / "AAPL.csv", index=False)


@layout("Quandl WIKI")
def _(t: Truth, d: Path) -> Path:
    frame = t.long().rename(columns=str.lower).rename(columns={"symbol": "ticker"})
    names = ("open", "high", "low", "close", "volume")
    adj = {f"adj_{name}": frame[name] for name in names}
    frame = frame.assign(**{name: 3 * frame[name] for name in names}, split_ratio=1.0, **adj)
    return csv(frame.assign(**{"ex-dividend": 0.0}), d / "p.csv", index=False)


@layout("Nasdaq", single=True)
def _(t: Truth, d: Path) -> Path:
    frame = t.of("AAPL")[::-1]
    dollars = {name: frame[name].map(lambda value: f"${value!r}") for name in OHLC}
    frame = frame.assign(**dollars)[["Date", "Close", "Volume", "Open", "High", "Low"]]
    frame = frame.rename(columns={"Close": "Close/Last"})
    return csv(frame, d / "AAPL.csv", index=False, date_format="%m/%d/%Y")


@layout("Investing.com", single=True)
def _(t: Truth, d: Path) -> Path:
    frame = t.of("AAPL")[::-1].rename(columns={"Close": "Price", "Volume": "Vol."})
    frame["Vol."] = frame["Vol."].map(lambda value: f"{value / 1e6:.6f}M")
    frame = frame.assign(**{"Change %": "0.10%"})
    return csv(frame, d / "AAPL.csv", index=False, date_format="%m/%d/%Y", quoting=1)


@layout("Tushare")
def _(t: Truth, d: Path) -> Path:
    frame = t.long().rename(columns=str.lower)
    frame = frame.rename(columns={"symbol": "ts_code", "date": "trade_date", "volume": "vol"})
    frame = frame.assign(pre_close=1.0, change=0.1, pct_chg=0.1, amount=5.0).sort_values("trade_date")
    return csv(frame[::-1], d / "p.csv", date_format="%Y%m%d")


@layout("FRED", closes=True)
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes().rename_axis("observation_date"), d / "p.csv")


@layout("Yahoo's page, copied", single=True)
def _(t: Truth, d: Path) -> Path:
    frame = t.of("AAPL")[::-1].rename(columns={"Close": "Close*"})
    frame.insert(5, "Adj Close**", frame["Close*"])
    frame["Volume"] = frame["Volume"].map(lambda value: f"{value:,}")
    return csv(frame, d / "AAPL.tsv", index=False, sep="\t", date_format="%b %d, %Y")


@layout("Excel, with its hint at the separator", closes=True)
def _(t: Truth, d: Path) -> Path:
    return text(d / "p.csv", "sep=;\r\n" + t.closes().to_csv(sep=";", decimal=",", lineterminator="\r\n"))


@layout("TradingView", single=True)
def _(t: Truth, d: Path) -> Path:
    frame = t.of("AAPL").rename(columns=str.lower).rename(columns={"date": "time", "volume": "Volume"})
    frame["time"] = frame["time"].to_numpy().astype("datetime64[s]").astype(np.int64)
    return csv(frame, d / "AAPL.csv", index=False)


@layout("German bank, semicolons, thousands with points", single=True)
def _(t: Truth, d: Path) -> Path:
    frame = t.of("AAPL")
    volume = frame["Volume"].map(lambda value: f"{value:,}".replace(",", "."))
    return csv(
        frame.assign(Volume=volume), d / "AAPL.csv", index=False, sep=";", decimal=",", date_format="%d.%m.%Y"
    )


@layout("volumes with thousands separators", single=True)
def _(t: Truth, d: Path) -> Path:
    frame = t.of("AAPL")
    return csv(
        frame.assign(Volume=frame["Volume"].map(lambda value: f"{value:,}")), d / "AAPL.csv", index=False
    )


def main(directory: Path) -> None:
    from poisoned_prices import POISONED

    for kind, files in (("layouts", LAYOUTS), ("poisoned", {name: w for name, (w, _) in POISONED.items()})):
        for name, write in files.items():
            place = directory / kind / name.replace("/", " ")
            place.mkdir(parents=True)
            write(truth(), place)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
