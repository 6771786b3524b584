"""Dates of a price file, in every spelling that names one day and only one.

A column is read as a whole: its spelling, the order of day and month, its time zone and its time of day are facts about
all of its cells. What differs from the rest is reported. 01/02/2020 means two different days; a column of such dates is
read if one of its days decides which, or if `env.day_first` does.
"""

import re
from collections import Counter
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from eigen2.market.findings import Finding, shown

Days = npt.NDArray[np.datetime64]
Integers = npt.NDArray[np.int64]

ISO_ADVICE: Final = "write dates as 2020-01-31"
DAILY_ADVICE: Final = "give one row per day (week or month): hourly and finer prices are not supported"
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = r"(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_CLOCK: Final = (
    r"(?:[ T]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?"
    r"(?: ?(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2}))?)?"
)
_SPELLINGS: Final = {
    "year first": re.compile(r"(?P<year>\d{4})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})" + _CLOCK, re.I),
    "day and month": re.compile(r"(?P<a>\d{1,2})([-/.])(?P<b>\d{1,2})\2(?P<year>\d{4})" + _CLOCK, re.I),
    "month by name": re.compile(
        rf"(?:(?P<day>\d{{1,2}})[ -]{_MONTH}|{_MONTH.replace('month', 'month2')} (?P<day2>\d{{1,2}}))"
        r"[ ,-]+(?P<year>\d{4})" + _CLOCK,
        re.I,
    ),
}
_UNITS: Final = ((1e8, 4.2e9, 1), (1e11, 4.2e12, 10**3), (1e14, 4.2e15, 10**6), (1e17, 4.2e18, 10**9))
"""Seconds, and their thousandths, millionths and billionths, from 1973 to 2103."""

FIRST_YEAR: Final = 1800
"""Earlier dates are mistakes."""

_DAY_SECONDS: Final = 86400
_EPOCH: Final = date(1970, 1, 1).toordinal()
_HOUR: Final = 3600
_WEEKEND: Final = 0.02
"""Readings of a calendar with more Saturdays and Sundays than this are not an exchange's."""


@dataclass(frozen=True)
class _Moment:
    """One cell: its day in the file's own clock, seconds into it, and minutes east of UTC (None: no zone said)."""

    day: date | tuple[int, int, int] | None
    """(a, b, year) where the order of day and month is open; None for a day that is not in the calendar."""
    seconds: int = 0
    offset: int | None = None
    spelling: str = "year first"


def parse_dates(
    column: "pd.Series[Any]", file: str, day_first: bool | None = None
) -> tuple[Days, list[Finding]]:
    """Days [row] as datetime64[D], NaT where unreadable, and one finding per kind of trouble at its first row."""
    codes, values = pd.factorize(column, use_na_sentinel=True)
    moments = [_moment(value) for value in values]
    problems = _Problems(column, codes, values, file)
    usual = Counter(moment.spelling for moment in moments if moment).most_common(1)
    spelling = usual[0][0] if usual else None
    for position, moment in enumerate(moments):
        if moment is None or moment.spelling != spelling:
            problems.add(position, "cannot be read", ISO_ADVICE)
            moments[position] = None
    _decide_order(moments, problems, day_first)
    days = _days_of(moments, problems)
    out = np.full(len(column), np.datetime64("NaT"), dtype="datetime64[D]")
    known = codes >= 0
    out[known] = days[codes[known]]
    return out, problems.findings(known)


class _Problems:
    """Kinds of trouble, each at the first row that has it."""

    def __init__(self, column: "pd.Series[Any]", codes: Integers, values: Any, file: str) -> None:
        self._column, self._codes, self._values, self._file = column, codes, values, file
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, position: int, problem: str, advice: str) -> None:
        self._found.setdefault(problem, (position, advice))

    def findings(self, known: npt.NDArray[np.bool_]) -> list[Finding]:
        found = []
        if not known.all():
            row = int(self._column.index[int(np.argmin(known))])
            found.append(Finding(self._file, row, None, "the date is missing", "every row needs a date"))
        for problem, (position, advice) in self._found.items():
            row = int(self._column.index[int(np.argmax(self._codes == position))])
            said = f"the date {shown(self._values[position])} {problem}"
            found.append(Finding(self._file, row, None, said, advice))
        return found


def _moment(value: object) -> _Moment | None:
    """One cell as read; None when it is no date at all."""
    if isinstance(value, pd.Timestamp):
        return _timestamp(value)
    if isinstance(value, np.datetime64):
        try:
            return _moment(pd.Timestamp(value))
        except (ValueError, OverflowError):
            return None
    if isinstance(value, date):
        return _Moment(value)
    if isinstance(value, (int, float, np.number)):
        return _number(float(value))
    text = str(value).strip()
    if text.replace(".", "", 1).isdigit():
        return _number(float(text))
    for spelling, pattern in _SPELLINGS.items():
        if match := pattern.fullmatch(text):
            return _spelled(match.groupdict(), spelling)
    return None


def _timestamp(value: pd.Timestamp) -> _Moment | None:
    try:
        offset = value.utcoffset()
        minutes = None if offset is None else int(offset.total_seconds()) // 60
        return _Moment(value.date(), _clock(value.hour, value.minute, value.second), minutes)
    except (NotImplementedError, OverflowError, ValueError):
        return None  # the year 111623


def _number(value: float) -> _Moment | None:
    """20200131, or a time since 1970 in seconds, thousandths, millionths or billionths of them, in UTC."""
    if not value.is_integer() and value > 4.2e9:
        return None
    whole = int(value)
    if FIRST_YEAR * 10000 <= whole <= 22001231:
        found = _calendar(whole // 10000, whole // 100 % 100, whole % 100)
        return _Moment(found, spelling="number") if found else None
    for low, high, unit in _UNITS:
        if low <= whole < high:
            day, seconds = divmod(whole // unit, _DAY_SECONDS)
            return _Moment(date.fromordinal(_EPOCH + day), seconds, 0, "seconds since 1970")
    return None


def _spelled(parts: dict[str, str | None], spelling: str) -> _Moment:
    seconds = _clock(*(int(parts[name] or 0) for name in ("hour", "minute", "second")))
    zone, year = parts["zone"], int(parts["year"] or 0)
    offset = None if zone is None else _offset(zone)
    if spelling == "day and month":
        return _Moment((int(parts["a"] or 0), int(parts["b"] or 0), year), seconds, offset, spelling)
    if spelling == "month by name":
        month = _MONTHS.index((parts["month"] or parts["month2"] or "")[:3].lower()) + 1
        return _Moment(
            _calendar(year, month, int(parts["day"] or parts["day2"] or 0)), seconds, offset, spelling
        )
    return _Moment(_calendar(year, int(parts["month"] or 0), int(parts["day"] or 0)), seconds, offset)


def _clock(hour: int, minute: int, second: int) -> int:
    return hour * _HOUR + minute * 60 + second


def _offset(zone: str) -> int:
    if zone.upper() in {"Z", "UTC", "GMT"}:
        return 0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * 60 + int(zone[-2:]))


def _calendar(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day) if year >= FIRST_YEAR else None
    except ValueError:
        return None


def _decide_order(moments: list[_Moment | None], problems: _Problems, day_first: bool | None) -> None:
    """Gives dates such as 03/01/2020 their day, where the column or the caller says what comes first."""
    open_ones = {
        place: moment.day for place, moment in enumerate(moments) if moment and isinstance(moment.day, tuple)
    }
    if not open_ones:
        return
    if day_first is None:
        possible = [
            first
            for first in (True, False)
            if all(_ordered(parts, first) is not None for parts in open_ones.values())
        ]
        if len(possible) != 1:
            known = "the column does not tell" if possible else "other rows contradict each other"
            place = next(iter(open_ones)) if possible else _contradiction(open_ones)
            problems.add(
                place,
                f"may have the day first or the month first, and {known}",
                "env.day_first=true or env.day_first=false decides, or " + ISO_ADVICE,
            )
            for place in open_ones:
                moments[place] = None
            return
        day_first = possible[0]
    for place, parts in open_ones.items():
        moment = moments[place]
        assert moment is not None
        found = _ordered(parts, day_first)
        moments[place] = _Moment(found, moment.seconds, moment.offset, moment.spelling)


def _ordered(parts: tuple[int, int, int], day_first: bool) -> date | None:
    a, b, year = parts
    return _calendar(year, b, a) if day_first else _calendar(year, a, b)


def _contradiction(open_ones: dict[int, tuple[int, int, int]]) -> int:
    """A place that the reading which fits the most rows cannot read."""
    wrong = {
        first: [place for place, parts in open_ones.items() if _ordered(parts, first) is None]
        for first in (True, False)
    }
    return min(wrong.values(), key=len)[0]


def _days_of(moments: list[_Moment | None], problems: _Problems) -> Days:
    """The day of each cell, NaT where it has none; troubles are reported."""
    days = np.full(len(moments), np.datetime64("NaT"), dtype="datetime64[D]")
    zoned = Counter(moment.offset is not None for moment in moments if moment)
    usual_zoned = zoned[True] > zoned[False]
    usable = []
    for place, moment in enumerate(moments):
        if moment is None:
            continue
        if moment.day is None:
            problems.add(place, "does not exist in the calendar", ISO_ADVICE)
        elif (moment.offset is not None) != usual_zoned:
            if usual_zoned:
                problems.add(place, "has no time zone, but others have", ISO_ADVICE)
            else:
                problems.add(place, "carries a time zone, but others do not", ISO_ADVICE)
        else:
            usable.append(place)
    chosen = [moment for place in usable if (moment := moments[place])]
    plain = np.array([np.datetime64(str(moment.day), "D") for moment in chosen], dtype="datetime64[D]")
    seconds = np.array([moment.seconds for moment in chosen], dtype=np.int64)
    in_utc = all(moment.offset in (None, 0) for moment in chosen)
    shift = _day_shift(plain, seconds, in_utc and usual_zoned)
    if shift is None:
        times = Counter(seconds.tolist())
        rare = min(times, key=lambda time: (times[time], time == 0))
        place = usable[int(np.argmax(seconds == rare))]
        problems.add(place, "has a time of day, but one row is read as one day", DAILY_ADVICE)
    else:
        days[usable] = plain + shift
    return days


def _day_shift(days: Days, seconds: Integers, utc: bool) -> Integers | None:
    """Days to add to each date, given its time of day; None when the times say that prices are finer than daily.

    Midnight is the day itself. One time of day for all (or two an hour apart, where clocks change) is how some vendors
    stamp a day: the close in local time, or midnight of the exchange told in UTC, which in the east is the evening
    before. That reading is taken under which nothing is traded on weekends.
    """
    times = np.unique(seconds)
    if not times.any():
        return np.zeros(len(days), np.int64)
    clock_change = len(times) == 2 and times[1] - times[0] in (_HOUR, _DAY_SECONDS - _HOUR)
    if len(times) > 2 or (len(times) == 2 and not (utc and clock_change)):
        return None
    same = np.zeros(len(days), np.int64)
    if not utc or times.max() < _DAY_SECONDS // 2:
        return same
    nearest = (seconds >= _DAY_SECONDS // 2).astype(np.int64)
    if times.min() >= _DAY_SECONDS - 60:
        return same  # 23:59:59 is the end of its own day
    weekdays = [shift for shift in (same, nearest) if _weekend_share(days + shift) <= _WEEKEND]
    return weekdays[0] if len(weekdays) == 1 else None


def _weekend_share(days: Days) -> float:
    return float(np.mean((days.astype(np.int64) + 3) % 7 >= 5)) if len(days) else 0.0
