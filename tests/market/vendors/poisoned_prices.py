"""Files that look like prices and are not: each must be refused, with the words that name what is wrong with it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from price_corpus import SYMBOLS, Truth, Writer, csv, parquet, stooq, text

POISONED: dict[str, tuple[Writer, tuple[str, ...]]] = {}
"""name -> (writer, words of the refusal)"""


def poisoned(name: str, *words: str) -> Callable[[Writer], Writer]:
    def add(writer: Writer) -> Writer:
        POISONED[name] = (writer, words)
        return writer

    return add


@poisoned("a volume as a symbol", "SPY_TURN", "looks like a volume")
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes().assign(SPY_TURN=t.volume[:, 0]), d / "p.csv")


@poisoned("volumes as prices, scaled to look like them", "IBM", "looks like a volume")
def _(t: Truth, d: Path) -> Path:
    return parquet(pd.DataFrame(t.volume / 2e4, t.dates.rename("date"), list(SYMBOLS)), d / "p.parquet")


@poisoned("volumes by name alone", "join a field and a symbol", "AAPL_Volume")
def _(t: Truth, d: Path) -> Path:
    return csv(pd.DataFrame(t.volume, t.dates.rename("date"), [f"{s}_Volume" for s in SYMBOLS]), d / "p.csv")


@poisoned("pairs without closes", "no closing prices")
def _(t: Truth, d: Path) -> Path:
    return parquet(t.downloaded()[["Open", "Volume"]], d / "p.parquet")


@poisoned("pairs of unknown names", "pairs such as", "neither name is always a field")
def _(t: Truth, d: Path) -> Path:
    return parquet(t.downloaded().rename(columns={"Volume": "Momentum"}), d / "p.parquet")


@poisoned("three levels of labels", "pairs such as")
def _(t: Truth, d: Path) -> Path:
    return csv(pd.concat({"USD": t.downloaded()}, axis=1), d / "p.csv")


@poisoned("cents among dollars", "IBM", "and back: another unit")
def _(t: Truth, d: Path) -> Path:
    frame = t.closes()
    frame.iloc[70:74, 1] *= 100
    return csv(frame, d / "p.csv")


@poisoned("another scale in one family", "AAPL_cap", "has a scale of")
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes().assign(AAPL_cap=t.close[:, 0] * 1.6e10), d / "p.csv")


@poisoned("highs and lows of one symbol", "AAPL_2", "look like the high and the low of AAPL_1")
def _(t: Truth, d: Path) -> Path:
    columns = {"AAPL_1": t.high[:, 0], "AAPL_2": t.low[:, 0], "IBM": t.close[:, 1]}
    return csv(pd.DataFrame(columns, t.dates.rename("date")), d / "p.csv")


@poisoned("a second column of one name", "AAPL.1", "second column AAPL")
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes().assign(**{"AAPL.1": t.open[:, 0]}), d / "p.csv")


@poisoned("one series under two names", "APPLE", "has the same prices as AAPL")
def _(t: Truth, d: Path) -> Path:
    return csv(t.closes().assign(APPLE=t.close[:, 0]), d / "p.csv")


@poisoned("one series under two names, the second listed later", "META", "has the same prices as")
def _(t: Truth, d: Path) -> Path:
    renamed = t.of("AAPL")[90:].assign(Symbol="META")
    return csv(pd.concat([t.long(), renamed]), d / "p.csv", index=False)


@poisoned("high and low exchanged", "AAPL", "is below low", "swapped")
def _(t: Truth, d: Path) -> Path:
    return csv(t.of("AAPL").rename(columns={"High": "Low", "Low": "High"}), d / "AAPL.csv", index=False)


@poisoned("open and close exchanged", "IBM", "open and close look exchanged")
def _(t: Truth, d: Path) -> Path:
    return csv(t.long().rename(columns={"Open": "Close", "Close": "Open"}), d / "p.csv", index=False)


@poisoned("close and volume exchanged", "AAPL", "is above high")
def _(t: Truth, d: Path) -> Path:
    return csv(
        t.of("AAPL").rename(columns={"Close": "Volume", "Volume": "Close"}), d / "AAPL.csv", index=False
    )


@poisoned("rows of days to come", "2999-01-01 is in the future", "row 162")
def _(t: Truth, d: Path) -> Path:
    frame = t.closes()
    frame.loc[pd.Timestamp("2999-01-01")] = frame.iloc[-1]
    return csv(frame, d / "p.csv")


@poisoned("hourly", "has a time of day", "hourly and finer prices are not supported")
def _(t: Truth, d: Path) -> Path:
    hours = pd.date_range("2020-01-02 09:00", periods=len(t.dates), freq="h", name="date")
    return csv(t.closes().set_axis(hours, axis=0), d / "p.csv")


@poisoned("ccxt, hourly", "has a time of day", "hourly and finer prices are not supported")
def _(t: Truth, d: Path) -> Path:
    hours = 1577836800000 + 3600000 * np.arange(len(t.dates))
    frame = t.of("AAPL").drop(columns="Date").rename(columns=str.lower)
    return csv(frame.assign(timestamp=hours), d / "BTC.csv", index=False)


@poisoned("Stooq, five minutes", "the period is 5", "hourly and finer prices are not supported")
def _(t: Truth, d: Path) -> Path:
    return csv(stooq(t.long()).assign(**{"<PER>": "5"}), d / "p.txt", index=False)


@poisoned("day and month cannot be told", "day first or the month first", "env.day_first")
def _(t: Truth, d: Path) -> Path:
    return text(d / "p.csv", "date,AAA\n01/02/2020,10\n02/03/2020,11\n03/04/2020,12\n")


@poisoned("day and month contradict each other", "contradict each other", "env.day_first")
def _(t: Truth, d: Path) -> Path:
    return text(d / "p.csv", "date,AAA\n01/02/2020,10\n13/03/2020,11\n03/14/2020,12\n")


@poisoned("Binance's files without a header", "has no header", "first line holds numbers")
def _(t: Truth, d: Path) -> Path:
    frame = t.of("AAPL")
    frame["Date"] = frame["Date"].to_numpy().astype("datetime64[ms]").astype(np.int64)
    return csv(frame, d / "BTCUSDT-1d.csv", index=False, header=False)


@poisoned("indicators among the columns", "unknown column rsi", "known are")
def _(t: Truth, d: Path) -> Path:
    return csv(t.long().assign(rsi=50.0, macd=0.1), d / "p.csv", index=False)


@poisoned("a folder with one symbol twice", "AAPL", "which AAPL.csv holds too")
def _(t: Truth, d: Path) -> Path:
    csv(t.of("AAPL"), d / "AAPL.csv", index=False)
    csv(t.of("AAPL").assign(Symbol="AAPL"), d / "copy.csv", index=False)
    return d


@poisoned("points and commas mixed", "AAPL", "is not a finite number")
def _(t: Truth, d: Path) -> Path:
    return text(d / "AAPL.csv", "date;close\n2020-01-02;10.5\n2020-01-03;10,75\n")


@poisoned("thousands or decimals", "may be 1234 or 1.234")
def _(t: Truth, d: Path) -> Path:
    return text(d / "AAPL.csv", "date;close\n2020-01-02;1,234\n2020-01-03;1,235\n")


@poisoned("nothing left of a day but its volume", "unknown column Turnover")
def _(t: Truth, d: Path) -> Path:
    return csv(t.of("AAPL").rename(columns={"Volume": "Turnover"}), d / "AAPL.csv", index=False)
