"""Whose format a table is in, as far as its labels tell; for people to read, nothing depends on it."""

from collections.abc import Sequence
from typing import Final

from eigen2.market.roles import SHORT, plain
from eigen2.market.table import Label

_OHLCV: Final = {"open", "high", "low", "close", "volume"}
_MARKS: Final[tuple[tuple[set[str], str], ...]] = (
    ({"ticker", "per", "date", "openint"}, "Stooq"),
    ({"tic", "day"}, "FinRL"),
    ({"symbol", "trade count", "vwap"}, "Alpaca"),
    ({"adjclose", "divcash", "splitfactor"}, "Tiingo"),
    ({"dividend amount", "split coefficient"}, "Alpha Vantage"),
    ({"ex dividend", "split ratio"}, "Quandl WIKI"),
    ({"close last"}, "Nasdaq"),
    ({"dividends", "stock splits"}, "yfinance"),
    (_OHLCV | {"date", "adj close"}, "Yahoo"),
    (_OHLCV | {"date", "name"}, "Kaggle"),
    (_OHLCV | {"timestamp"}, "ccxt"),
)


def vendor_of(labels: Sequence[Label]) -> str | None:
    if any(len(label) > 1 for label in labels):
        return "yfinance"
    names = {plain(label[0]) for label in labels}
    if {"t", "o", "h", "l", "c"} <= names <= set(SHORT):
        return "Alpaca"
    return next((vendor for marks, vendor in _MARKS if marks <= names), None)


def described(source: str, labels: Sequence[Label], layout: str) -> str:
    """Vendor, kind of file and layout in words."""
    return ", ".join(part for part in (vendor_of(labels), source, layout) if part)
