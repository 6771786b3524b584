"""Rows in the order of time: oldest first or newest first, each day once."""

import numpy as np
import numpy.typing as npt

from eigen2.market.dates import Days
from eigen2.market.findings import Finding, more

Rows = npt.NDArray[np.int64]


def order_findings(
    days: Days, rows: Rows, file: str, symbol: str | None, newest_first: bool = True
) -> list[Finding]:
    """Dates must go one way, each once; unreadable ones have been reported already. `newest_first` allows both ways."""
    known = ~np.isnat(days)
    days, rows = days[known], rows[known]
    steps = np.diff(days.astype(np.int64))
    if (steps > 0).all() or (newest_first and (steps < 0).all()):
        return []
    findings = []
    order = np.argsort(days, kind="stable")
    twice = np.flatnonzero(days[order][1:] == days[order][:-1])
    if twice.size:
        place = order[twice[0] + 1]
        problem = f"the date {days[place]} occurs twice{more(int(twice.size))}"
        findings.append(Finding(file, int(rows[place]), symbol, problem, "keep one row per day"))
    back = np.flatnonzero(steps < 0)
    if newest_first and np.count_nonzero(steps < 0) > np.count_nonzero(steps > 0):
        back = np.flatnonzero(steps > 0)
    if back.size:
        place = back[0] + 1
        problem = f"the date {days[place]} comes after {days[place - 1]}{more(int(back.size))}"
        findings.append(
            Finding(file, int(rows[place]), symbol, problem, "sort the rows by date, oldest or newest first")
        )
    return findings


def sorted_long(days: Days, column: Rows, symbols: tuple[str, ...], rows: Rows, file: str) -> list[Finding]:
    """Each symbol's dates must go one way; how symbols are interleaved does not matter."""
    if (np.diff(days.astype(np.int64) * len(symbols) + column) > 0).all():
        return []  # sorted by date, then symbol: the usual case needs no sorting
    order = np.argsort(column, kind="stable")
    same = column[order][1:] == column[order][:-1]
    step = np.diff(days[order].astype(np.int64))
    wrong = np.unique(column[order][1:][same & (step <= 0)])
    if (step[same] < 0).all():
        return []  # newest first throughout
    findings = []
    for code in wrong:
        mine = column == code
        findings += order_findings(days[mine], rows[mine], file, symbols[code], newest_first=False)
    return findings
