"""What is really held, from a small CSV file, put into a core in place of what the champion would hold.

Columns: symbol, shares; if known also entry_price, entry_date and sell_at, as `decide --csv` prints them. A row CASH
gives the money that is not invested, in the column shares.
"""

from math import sqrt
from pathlib import Path

import numpy as np
import pandas as pd

from eigen2.envs.trading import TradingCore
from eigen2.envs.trading.orders import ORIGINAL_TARGETS
from eigen2.errors import DataError

CASH = "CASH"
COLUMNS = {"symbol", "shares", "entry_price", "entry_date", "sell_at"}


def read_holdings(file: Path, core: TradingCore, capital: float | None) -> tuple[float, list[str]]:
    """Put the holdings of `file` into the only portfolio of `core`; returns what they are worth and what to know.

    `capital`, if given, is what everything together is worth: what the holdings leave of it is cash.
    """
    table = _read(file)
    day = int(core.books.day[0])
    names = {core.market.symbols[column]: i for i, column in enumerate(core.market.tradable)}
    own = table[table["symbol"] != CASH]
    if unknown := sorted(set(own["symbol"]) - set(names)):
        raise DataError(f"{file} holds {', '.join(unknown)}, which the champion does not trade; leave it out")
    if twice := sorted(own["symbol"][own["symbol"].duplicated()]):
        raise DataError(f"{file} names {twice[0]} twice; add its shares up")
    position = [names[symbol] for symbol in own["symbol"]]
    shares = own["shares"].to_numpy(float)
    prices = _last_prices(core, day)[position]
    if (prices == 0.0).any():
        raise DataError(f"{file} holds {own['symbol'].iloc[int(np.argmin(prices))]}, which has no price yet")
    invested = float(shares @ prices)
    cash, notes = _cash(file, table, invested, capital)
    total = invested + cash
    if total <= 0.0:
        raise DataError(f"{file} holds nothing; give a row {CASH} with your money, or --capital")
    _put(core, np.array(position, int), shares / total, prices, cash / total)
    return total, [*notes, *_details(core, file, own, position, prices, day)]


def _read(file: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(file, skipinitialspace=True)
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read as holdings ({str(error).splitlines()[0]})") from error
    table.columns = [str(name).strip().lower() for name in table.columns]
    if not {"symbol", "shares"} <= set(table.columns):
        raise DataError(f"{file} needs the columns symbol and shares; it has {', '.join(table.columns)}")
    table = table[[name for name in table.columns if name in COLUMNS]].copy()
    table["symbol"] = table["symbol"].astype(str).str.strip()
    table["shares"] = pd.to_numeric(table["shares"], errors="coerce")
    bad = ~np.isfinite(table["shares"].to_numpy(float)) | (table["shares"].to_numpy(float) < 0.0)
    if bad.any():
        raise DataError(f"{file} row {int(np.argmax(bad)) + 2}: shares must be a number that is not negative")
    return table


def _cash(file: Path, table: pd.DataFrame, invested: float, capital: float | None) -> tuple[float, list[str]]:
    given = table["shares"][table["symbol"] == CASH]
    if len(given):
        return float(given.sum()), []
    if capital is None:
        return 0.0, [f"{file} has no row {CASH}: no cash is assumed"]
    if invested > capital:
        raise DataError(
            f"{file} holds {invested:,.2f} at the last prices, more than the capital of {capital:,.2f}"
        )
    return capital - invested, []


def _last_prices(core: TradingCore, day: int) -> np.ndarray:
    """[tradable] zero where there was none."""
    close = core.market.close[: day + 1][:, core.market.tradable]
    known = np.isfinite(close)
    last = np.where(known.any(axis=0), day - np.argmax(known[::-1], axis=0), 0)
    found: np.ndarray = np.where(known.any(axis=0), close[last, np.arange(close.shape[1])], 0.0)
    return found


def _put(
    core: TradingCore, position: np.ndarray, shares: np.ndarray, prices: np.ndarray, cash: float
) -> None:
    books = core.books
    books.cash[0], books.equity[0], books.pnl[0], books.costs[0] = cash, 1.0, 0.0, 0.0
    for name in ("shares", "value", "entry", "target", "entry_day", "coefficient"):
        getattr(books, name)[0] = 0
    books.shares[0, position] = shares
    books.value[0, position] = shares * prices


def _details(
    core: TradingCore, file: Path, own: pd.DataFrame, position: list[int], prices: np.ndarray, day: int
) -> list[str]:
    """Entry, age and target of positions (orders and original)."""
    config, books = core.config, core.books
    if config.actions == "weights" or not position:
        return []
    low, high = ORIGINAL_TARGETS if config.actions == "original" else (config.target_low, config.target_high)
    entry = _numbers(own, "entry_price", prices, file)
    books.entry[0, position] = entry
    books.target[0, position] = _numbers(own, "sell_at", entry * (1.0 + sqrt(low * high)), file)
    books.entry_day[0, position] = _entry_days(core, own, day, file)
    missing = [name for name in ("entry_price", "entry_date", "sell_at") if name not in own]
    if not missing:
        return []
    return [
        f"{file} has no {', '.join(missing)}: positions count as opened today at the last price, with a middle sale target"
    ]


def _numbers(own: pd.DataFrame, name: str, otherwise: np.ndarray, file: Path) -> np.ndarray:
    if name not in own:
        return otherwise
    found = pd.to_numeric(own[name], errors="coerce").to_numpy(float)
    if (found <= 0.0).any():
        raise DataError(f"{file}: {name} must be positive")
    filled: np.ndarray = np.where(np.isfinite(found), found, otherwise)
    return filled


def _entry_days(core: TradingCore, own: pd.DataFrame, day: int, file: Path) -> np.ndarray:
    if "entry_date" not in own:
        return np.full(len(own), day)
    dates = pd.to_datetime(own["entry_date"], errors="coerce").to_numpy("datetime64[D]")
    if (dates > core.market.dates[day].astype("datetime64[D]")).any():
        raise DataError(f"{file}: an entry_date is after {core.market.dates[day]}, the last day that is seen")
    known = core.market.dates[: day + 1].astype("datetime64[D]")
    found = np.minimum(np.searchsorted(known, dates), day)
    filled: np.ndarray = np.where(np.isnat(dates), day, found)
    return filled
