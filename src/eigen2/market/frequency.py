"""How often a market is priced, found in its calendar: what a year of its periods is.

The usual step between two dates decides: one day is daily, seven weekly, about 30 monthly. A day-to-day calendar that
uses at most five days of the week is an exchange's, 252 periods a year however many holidays it has; one that uses all
seven is that of crypto, 365. Whatever fits none of these is counted in the calendar itself.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Dates = npt.NDArray[np.datetime64]

DAYS_IN_YEAR: Final = 365.2425
RARE_WEEKDAY: Final = 0.02
"""A day of the week with a smaller share of the dates is an exception: a special session, a Saturday fixing."""


@dataclass(frozen=True)
class Frequency:
    name: str
    """daily, weekly, monthly, ..., as it is shown."""
    period: str
    """One step: day, week, month, quarter, year or period."""
    periods_per_year: int
    regular: bool = True
    """Whether it is a known calendar; else the periods of a year were counted."""


EXCHANGE: Final = Frequency("daily", "day", 252)
EVERY_DAY: Final = Frequency("daily, seven days a week", "day", 365)
_LONGER: Final = (
    (5, 9, Frequency("weekly", "week", 52)),
    (26, 33, Frequency("monthly", "month", 12)),
    (85, 97, Frequency("quarterly", "quarter", 4)),
    (350, 380, Frequency("yearly", "year", 1)),
)


def frequency_of(dates: Dates) -> Frequency:
    """The frequency of ascending dates [day]; a calendar too short to tell is an exchange's."""
    days = dates.astype("datetime64[D]").astype(np.int64)
    if len(days) < 2:
        return EXCHANGE
    # The lower quartile, because weekends make the median of a few days 2, and holes make the mean anything.
    step = int(np.quantile(np.diff(days), 0.25, method="lower"))
    if step <= 1:
        return _daily(days)
    for shortest, longest, found in _LONGER:
        if shortest <= step <= longest:
            return found
    return _counted(days)


def _daily(days: npt.NDArray[np.int64]) -> Frequency:
    share = np.bincount((days + 3) % 7, minlength=7) / len(days)  # 1970-01-01 was a Thursday; 0 is Monday
    used = int(np.count_nonzero(share > RARE_WEEKDAY))
    if used <= 5:
        return EXCHANGE
    return EVERY_DAY if used == 7 else _counted(days)


def _counted(days: npt.NDArray[np.int64]) -> Frequency:
    years = int(days[-1] - days[0]) / DAYS_IN_YEAR
    count = max(1, round((len(days) - 1) / years))
    return Frequency(f"irregular, about {count} periods a year", "period", count, regular=False)
