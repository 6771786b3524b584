"""Dates of a price file. Only 2020-01-31 is read as a date: 01/02/2020 means two different days."""

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from eigen2.market.findings import Finding

Days = npt.NDArray[np.datetime64]

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}([ T]00:00(:00(\.0+)?)?)?")
_ZONE: Final = re.compile(r"\d{4}-\d{2}-\d{2}[ T].*(Z|[+-]\d{2}:?\d{2})")
_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}[ T].*")


def parse_dates(column: "pd.Series[Any]", file: str) -> tuple[Days, list[Finding]]:
    """Days [row] as datetime64[D], NaT where unreadable, and one finding per kind of trouble at its first row."""
    codes, values = pd.factorize(column, use_na_sentinel=True)
    problems = [_problem(value) for value in values]
    days = np.array(
        [
            np.datetime64("NaT") if problem else _day(value)
            for value, problem in zip(values, problems, strict=True)
        ],
        dtype="datetime64[D]",
    )
    out = np.full(len(column), np.datetime64("NaT"), dtype="datetime64[D]")
    known = codes >= 0
    out[known] = days[codes[known]]
    findings = []
    if not known.all():
        row = int(column.index[int(np.argmin(known))])
        findings.append(Finding(file, row, None, "the date is missing", "every row needs a date"))
    seen = set()
    for position, problem in enumerate(problems):
        if problem is not None and problem[0] not in seen:
            seen.add(problem[0])
            row = int(column.index[int(np.argmax(codes == position))])
            findings.append(
                Finding(file, row, None, f"the date {values[position]!s} {problem[0]}", problem[1])
            )
    return out, findings


def _problem(value: object) -> tuple[str, str] | None:
    """What is wrong with a date and what to do, or None."""
    iso = "write dates as 2020-01-31"
    if isinstance(value, (int, float, np.number)):
        return "is a number", iso
    text = str(value).strip()
    if _ZONE.fullmatch(text):
        return "carries a time zone", "store plain dates of the exchange, such as 2020-01-31"
    if _DAY.fullmatch(text):
        try:
            np.datetime64(text[:10], "D")
        except ValueError:
            return "does not exist in the calendar", iso
        return None
    if _MOMENT.fullmatch(text):
        return "has a time of day, but prices are read as daily", "keep one row per day"
    return "cannot be read", iso


def _day(value: object) -> np.datetime64:
    return np.datetime64(str(value).strip()[:10], "D")
