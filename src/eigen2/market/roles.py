"""What the columns of a price table are, by the names that data vendors give them.

A table is read only if the role of every column is known: it is the date, the symbol, a price, the volume, or one of
the things that vendors add and that are left out here (dividends, trade counts, weekdays, ...).
"""

import re
from dataclasses import dataclass
from typing import Final

DATE: Final = (
    "date", "datetime", "timestamp", "date time", "trade date", "trading date", "observation date", "dates", "open time",
    "time", "unix", "unix timestamp",
)  # fmt: skip
"""Names of the column of dates, the first that occurs is it; the others tell the same moment again."""

SYMBOL: Final = ("symbol", "ticker", "tic", "stock symbol", "ts code", "instrument", "asset", "code", "name")
"""Names of the column of symbols, the first that occurs is it; a `name` beside it is the company's."""

FIELD: Final = {
    "open": "open",
    "high": "high",
    "low": "low",
    "close": "close",
    "close last": "close",
    "last": "close",
    "price": "close",
    "volume": "volume",
    "vol": "volume",
    "adj close": "adj close",
    "adjclose": "adj close",
    "adjusted": "adj close",
    "adjusted close": "adj close",
    "close adj": "adj close",
    "adj open": "adj open",
    "adjopen": "adj open",
    "adj high": "adj high",
    "adjhigh": "adj high",
    "adj low": "adj low",
    "adjlow": "adj low",
    "adj volume": "adj volume",
    "adjvolume": "adj volume",
}
"""Names of prices and volumes -> what they are."""

LEFT_OUT: Final = frozenset({
    "per", "day", "openint", "open interest", "dividends", "dividend", "dividend amount", "divcash",
    "ex dividend", "stock splits", "split ratio", "split factor", "splitfactor", "split coefficient",
    "capital gains", "repaired?", "repaired", "trade count", "trades", "number of trades", "vwap",
    "transactions", "quote volume", "quote asset volume", "taker buy base asset volume",
    "taker buy quote asset volume", "close time", "ignore", "change", "change percent", "change %", "pct chg", "pre close", "amount", "currency",
    "exchange", "interval", "timeframe", "market cap", "marketcap",
})  # fmt: skip
"""Vendors' columns that are neither prices nor volumes of the day."""

SHORT: Final = {"t": "timestamp", "o": "open", "h": "high", "l": "low", "c": "close", "v": "volume", "s": "symbol",
                "n": "trade count", "vw": "vwap", "symbol": "symbol"}  # fmt: skip
"""Alpaca's raw bars. These are also tickers, so they count only where all columns are such names."""

ROW_NUMBER: Final = ("", "unnamed: 0", "index", "level 0", "index level 0")
"""What a column is called that pandas wrote as the index of its rows."""


@dataclass(frozen=True)
class Roles:
    """Positions of the columns by role."""

    date: int | None
    symbol: int | None
    fields: dict[str, int]
    """open, high, low, close, volume and adj ... -> column."""
    clock: int | None
    """A time of day beside the date."""
    period: int | None
    """Stooq's <PER>: D, W, M, or minutes."""
    left_out: tuple[int, ...]
    unknown: tuple[int, ...]


def plain(label: str) -> str:
    """The name without case, brackets and punctuation: <CLOSE>, Adj_Close and `close/last` -> close, adj close, close last."""
    return re.sub(r"[\s_./-]+", " ", label.strip().strip("<>*").lower()).strip()


def field_of(label: str) -> str | None:
    """What a name means as a price or volume; pandas' numbering of equal names (Close.1) does not count."""
    return FIELD.get(plain(re.sub(r"\.\d+$", "", label)))


def is_left_out(label: str) -> bool:
    return plain(re.sub(r"\.\d+$", "", label)) in LEFT_OUT


def is_date(label: str) -> bool:
    return plain(label) in DATE


def is_row_number(label: str) -> bool:
    return plain(label) in ROW_NUMBER


def roles_of(labels: list[str]) -> Roles:
    """The role of every column, by name alone; of two columns with one role the second is unknown."""
    names = [plain(label) for label in labels]
    if {"t", "o", "h", "l", "c"} <= set(names) <= set(SHORT):
        names = [SHORT[name] for name in names]
    found = {name: place for place, name in reversed(list(enumerate(names)))}
    date = next((found[name] for name in DATE if name in found), None)
    symbol = next((found[name] for name in SYMBOL if name in found), None)
    clock = found.get("time") if date is not None and names[date] != "time" else None
    fields: dict[str, int] = {}
    left_out, unknown = [], []
    for place, name in enumerate(names):
        if place in (date, symbol, clock, found.get("per")):
            continue
        if (field := FIELD.get(name)) is not None and field not in fields:
            fields[field] = place
        elif (
            name in LEFT_OUT or (date is not None and name in DATE) or (symbol is not None and name == "name")
        ):
            left_out.append(place)
        else:
            unknown.append(place)
    return Roles(date, symbol, fields, clock, found.get("per"), tuple(left_out), tuple(unknown))
