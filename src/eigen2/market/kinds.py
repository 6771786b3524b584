"""Series that cannot be prices of one kind: volumes beside prices, one symbol under two names, highs beside lows,
cells in another unit, open and close exchanged. They are refused by name, whatever the columns are called.

Each rule was set where prices never are: see `tests/market/test_kinds.py`, which also runs them over the samples.
"""

import re
from collections import defaultdict
from typing import Final

import numpy as np

from eigen2.market.data import FloatArray
from eigen2.market.findings import Finding, more
from eigen2.market.grid import Grid

FEW: Final = 20
"""Days below which a series shows too little to be judged."""

VOLUME_SWING: Final = 0.25
VOLUME_RETURN: Final = -0.2
"""A volume changes by a quarter a day and goes back: the standard deviation of its log changes is 0.25 or more, and
each is followed by its opposite (correlation below -0.2). Prices have 0.1 at most, and about 0."""

SPIKE: Final = 5.0
SPIKE_DAYS: Final = 10
"""A price that jumps by this factor and returns to where it was within so many days was in another unit."""

FAR: Final = 1e3
TOO_FAR: Final = 1e5
"""Scales of columns of one family (AAPL, AAPL_x): beyond FAR they must move together, TOO_FAR they never are prices."""

_FAMILY: Final = re.compile(r"[_ .:]+")
_ANCHORS: Final = 16


def kind_findings(grid: Grid) -> list[Finding]:
    """One finding per symbol and rule."""
    return [*_volumes(grid), *_twins(grid), *_families(grid), *_other_unit(grid), *_exchanged(grid)]


def _finding(grid: Grid, column: int, problem: str, advice: str, day: int | None = None) -> Finding:
    advice = f"{advice}; if you know better, env.judge_series=false"
    row = None if day is None else int(grid.rows[day, column])
    return Finding(grid.files[column], row, grid.prices.symbols[column], problem, advice)


def _log(values: FloatArray) -> FloatArray:
    """NaN where there is no positive value."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: FloatArray = np.log(np.where(values > 0, values, np.nan))
    return logs


def _volumes(grid: Grid) -> list[Finding]:
    """Closes that behave as volumes do."""
    change = np.diff(_log(grid.prices.close), axis=0)
    findings = []
    known = np.isfinite(change)
    enough = np.flatnonzero(known.sum(axis=0) >= FEW)
    spread = np.zeros(change.shape[1])
    spread[enough] = np.nanstd(change[:, enough], axis=0)
    for column in enough[spread[enough] >= VOLUME_SWING]:
        series = change[known[:, column], column]
        swing = float(series.std())
        centred = series - series.mean()
        returns = float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())
        # A few huge jumps make any standard deviation large; a volume swings on most days.
        usual = float(np.median(np.abs(series)))
        if returns <= VOLUME_RETURN and usual >= VOLUME_SWING / 3:
            problem = f"looks like a volume: it changes by {swing:.0%} a day and back again, as no price does"
            findings.append(_finding(grid, int(column), problem, "give prices; leave this series out"))
    return findings


def _twins(grid: Grid) -> list[Finding]:
    """Symbols whose closes are the same numbers."""
    close = grid.prices.close
    days = len(close)
    anchors = np.unique(np.linspace(0, days - 1, min(days, _ANCHORS)).astype(int))
    findings, reported = [], set()
    for day in anchors:
        order = np.argsort(close[day], kind="stable")
        ordered = close[day, order]
        for place in np.flatnonzero(ordered[1:] == ordered[:-1]):
            first, second = sorted((int(order[place]), int(order[place + 1])))
            if second in reported or not _identical(close[:, first], close[:, second]):
                continue
            reported.add(second)
            both = f"{grid.prices.symbols[first]} and {grid.prices.symbols[second]}"
            problem = f"has the same prices as {grid.prices.symbols[first]} on every day they share"
            findings.append(_finding(grid, second, problem, f"{both} are one series: keep one of them"))
    return findings


def _identical(a: FloatArray, b: FloatArray) -> bool:
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    return len(np.unique(a)) >= 5 and bool((a == b).all())


def _families(grid: Grid) -> list[Finding]:
    """Columns whose names begin alike: other scales, or the highs and lows of one thing."""
    families: dict[str, list[int]] = defaultdict(list)
    for column, symbol in enumerate(grid.prices.symbols):
        families[_FAMILY.split(symbol)[0].lower()].append(column)
    findings = []
    for members in families.values():
        for first, second in zip(members, members[1:], strict=False):
            if (said := _unlike(grid.prices.close[:, first], grid.prices.close[:, second])) is not None:
                problem = f"{said} of {grid.prices.symbols[first]}"
                advice = "give one column of closes per symbol"
                findings.append(_finding(grid, second, problem, advice))
    return findings


def _unlike(a: FloatArray, b: FloatArray) -> str | None:
    """What two series of one family cannot both be."""
    both = (a > 0) & (b > 0)
    if both.sum() < FEW:
        return None
    first, second = np.log(a[both]), np.log(b[both])
    apart = first - second
    scale = float(np.exp(abs(np.median(apart))))
    if scale >= TOO_FAR or (scale >= FAR and _together(first, second) < 0.5):
        return f"has a scale of {scale:.0g} times or one part in {scale:.0g}"
    gap = apart if apart.mean() > 0 else -apart
    usual = float(np.median(gap))
    one_above = bool((gap >= 0).all()) and 0 < usual < 0.2
    # The range of a day is new each day and sometimes almost nothing; the discount of a share class is neither.
    if one_above and gap.min() < 0.3 * usual and _persistence(gap) < 0.7:
        return "and it look like the high and the low"
    return None


def _together(first: FloatArray, second: FloatArray) -> float:
    a, b = np.diff(first), np.diff(second)
    if a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _persistence(series: FloatArray) -> float:
    centred = series - series.mean()
    power = float((centred**2).sum())
    return float((centred[1:] * centred[:-1]).sum() / power) if power > 0 else 1.0


def _other_unit(grid: Grid) -> list[Finding]:
    """Closes that jump far away and come back: cents among dollars, a volume in the wrong cell."""
    findings = []
    logs = _log(grid.prices.close)
    far = np.abs(np.diff(logs, axis=0)) > np.log(SPIKE)
    for column in np.flatnonzero(far.any(axis=0)):
        known = np.flatnonzero(np.isfinite(logs[:, column]))
        series = logs[known, column]
        jumps = np.flatnonzero(np.abs(np.diff(series)) > np.log(SPIKE))
        there = [
            start
            for start in jumps
            if any(
                abs(series[start] - series[back + 1]) < np.log(SPIKE) / 4
                and start < back <= start + SPIKE_DAYS
                for back in jumps
            )
        ]
        if there:
            day = int(known[there[0] + 1])
            before, after = np.exp(series[there[0]]), np.exp(series[there[0] + 1])
            problem = f"close goes from {before:.6g} to {after:.6g} and back: another unit, or not a price{more(len(there))}"
            findings.append(_finding(grid, int(column), problem, "correct the cells", day))
    return findings


def _exchanged(grid: Grid) -> list[Finding]:
    """Opens that follow the next close: the columns are exchanged, or time runs backwards.

    An open is near the close before it, S1 = sum (log open[t] - log close[t-1])^2; across the other way,
    S2 = sum (log close[t] - log open[t-1])^2, lie two trading days. S2 is larger, unless open and close are exchanged.
    """
    if grid.prices.open is None:
        return []
    opens, closes = _log(grid.prices.open), _log(grid.prices.close)
    findings = []
    near, across = (opens[1:] - closes[:-1]) ** 2, (closes[1:] - opens[:-1]) ** 2
    both = np.isfinite(near) & np.isfinite(across)
    days = both.sum(axis=0)
    left, right = np.where(both, near, 0).sum(axis=0), np.where(both, across, 0).sum(axis=0)
    for column in np.flatnonzero((days >= 3 * FEW) & (right < 0.5 * left)):
        problem = "open and close look exchanged: each open is far from the close before it, each close near the open before it"
        findings.append(
            _finding(grid, int(column), problem, "check the order of the columns and of the dates")
        )
    return findings
