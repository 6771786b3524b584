"""Days by name: which one a user means, and which one comes next."""

import numpy as np

from eigen2.errors import ConfigError
from eigen2.market.data import MarketData

RECENT = 60
"""Days from which the rhythm of a calendar is read."""


def named_day(market: MarketData, date: str | None) -> int:
    """The last day up to `date`; the last one of all when none is named."""
    if date is None:
        return len(market.dates) - 1
    try:
        wanted = np.datetime64(date, "D")
    except ValueError:
        raise ConfigError(f"{date!r} is not a date; write it as 2024-01-31") from None
    if np.isnat(wanted) or wanted > market.dates[-1] or wanted < market.dates[0]:
        raise ConfigError(
            f"{date} is outside the known days, {market.dates[0]} to {market.dates[-1]}; --data names a newer file"
        )
    return int(np.searchsorted(market.dates, wanted, side="right")) - 1


def day_after(market: MarketData, day: int) -> tuple[np.datetime64, bool]:
    """The trading day after `day`, and whether it is known; else it is what the rhythm of the last days says."""
    dates = market.dates.astype("datetime64[D]")
    if day + 1 < len(dates):
        return dates[day + 1], True
    recent = dates[max(0, day - RECENT) : day + 1]
    gaps = np.diff(recent).astype(int)
    usual = int(np.bincount(gaps).argmax()) if gaps.size else 1
    if usual == 1 and np.is_busday(recent).all():
        return np.busday_offset(dates[day], 1, roll="backward"), False
    return dates[day] + np.timedelta64(usual, "D"), False
