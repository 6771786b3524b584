"""`eigen2 data check FILE`, and the reader behind it: a file is read only if the check finds no error."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from eigen2.errors import DataError
from eigen2.market.config import MarketConfig
from eigen2.market.findings import Finding, UnusableFile, by_severity, errors, first_sentences, more, shown
from eigen2.market.frequency import frequency_of
from eigen2.market.grid import Grid
from eigen2.market.kinds import kind_findings
from eigen2.market.layout import read_grid
from eigen2.market.prices import Prices
from eigen2.market.splits import days_needed, too_few_days
from eigen2.market.stock_splits import suspected_splits
from eigen2.market.table import Rules

LONG_GAP: Final = 20
"""A symbol unknown for more days in a row is two listings under one name."""

JUMP: Final = 3.0
"""A close that changes by more than this factor in a day is suspected of being an unadjusted split."""

Cells = npt.NDArray[np.bool_]


EXACT: Final = Rules()


def rules_of(config: MarketConfig | None) -> Rules:
    """How a config wants files to be read."""
    return EXACT if config is None else Rules(config.day_first, config.judge_series)


def check_file(path: Path, config: MarketConfig | None = None) -> list[Finding]:
    """Everything found in a file, errors first. With a config, also whether it has days enough for its splits."""
    grid, findings = inspect(path, rules_of(config))
    if grid is not None and config is not None and grid.prices.days < days_needed(config):
        few = too_few_days(grid.prices.days, config, "the file", frequency_of(grid.prices.dates))
        problem, advice = few.split("; ", 1)
        findings.append(Finding(str(path), None, None, problem, advice))
    return by_severity(findings)


def read_prices(path: Path, rules: Rules = EXACT) -> tuple[Prices, list[Finding]]:
    """The prices, and warnings and notes about them; DataError with the first few errors if there are any."""
    grid, findings = inspect(path, rules)
    wrong = errors(findings)
    if grid is None or wrong:
        raise DataError(first_sentences(wrong))
    return grid.prices, findings


def inspect(path: Path, rules: Rules = EXACT) -> tuple[Grid | None, list[Finding]]:
    """What a file holds and everything found in it; None when it cannot be read at all."""
    try:
        grid, findings = read_grid(path, rules)
    except UnusableFile as unusable:
        return None, [unusable.finding]
    if grid is None:
        return None, by_severity(findings)
    return grid, by_severity([*_Inspection(grid, rules).findings(), *findings])


class _Inspection:
    """The checks of values; each reports a symbol once, at its first offending row."""

    def __init__(self, grid: Grid, rules: Rules) -> None:
        self.grid, self.prices, self.rules = grid, grid.prices, rules

    def findings(self) -> list[Finding]:
        return [
            *self._names(),
            *self._empty_symbols(),
            *self._positive(),
            *self._range(),
            *self._without_close(),
            *self._volume(),
            *self._gaps(),
            *(kind_findings(self.grid) if self.rules.judge else ()),
            *self._splits(),
            *self._jumps(),
            *self._constant(),
            *self._future(),
            *self._irregular(),
        ]

    def _report(self, bad: Cells, problem: str, advice: str, **severity: str) -> list[Finding]:
        """`bad` [day, symbol] -> a finding per symbol; `{field}` in the text is the array's value there."""
        findings = []
        for column in np.flatnonzero(bad.any(axis=0)):
            day = int(np.argmax(bad[:, column]))
            values = {name: f"{array[day, column]:g}" for name, array in self.prices.arrays().items()}
            text = problem.format(**values) + more(int(bad[:, column].sum()))
            row = int(self.grid.rows[day, column])
            place = (self.grid.files[column], row, self.prices.symbols[column])
            findings.append(Finding(*place, text, advice, **severity))  # type: ignore[arg-type]
        return findings

    def _names(self) -> list[Finding]:
        return [
            Finding(self.grid.files[column], None, shown(symbol), "is no name of a symbol", "rename it")
            for column, symbol in enumerate(self.prices.symbols)
            if not symbol.isprintable()
        ]

    def _empty_symbols(self) -> list[Finding]:
        empty = np.flatnonzero(~self.prices.mask.any(axis=0))
        return [
            Finding(
                self.grid.files[column],
                None,
                self.prices.symbols[column],
                "has no close at all",
                "remove this symbol",
            )
            for column in empty
        ]

    def _positive(self) -> list[Finding]:
        findings = []
        for name, array in self.prices.arrays().items():
            if name != "volume":
                advice = "correct it, or leave the cell empty if the price is unknown"
                findings += self._report(array <= 0, f"{name} is {{{name}}}, not positive", advice)
        return findings

    def _range(self) -> list[Finding]:
        """Rounding in the last digit is forgiven."""
        high, low = self.prices.high, self.prices.low
        findings = []
        if high is not None and low is not None:
            findings += self._report(
                high < low * (1 - 1e-6),
                "high {high} is below low {low}",
                "check whether the columns are swapped",
            )
        for name in ("open", "close"):
            array = getattr(self.prices, name)
            if array is None:
                continue
            if high is not None:
                text = f"{name} {{{name}}} is above high {{high}}"
                findings += self._report(
                    array > high * (1 + 1e-6), text, "the high must be the day's highest price"
                )
            if low is not None:
                text = f"{name} {{{name}}} is below low {{low}}"
                findings += self._report(
                    array < low * (1 - 1e-6), text, "the low must be the day's lowest price"
                )
        return findings

    def _without_close(self) -> list[Finding]:
        known = np.zeros_like(self.prices.mask)
        for name, array in self.prices.arrays().items():
            known |= np.isfinite(array) if name not in {"close", "volume"} else False
        return self._report(
            known & ~self.prices.mask,
            "the day has prices but no close",
            "fill in the close, or empty the row",
        )

    def _volume(self) -> list[Finding]:
        if self.prices.volume is None:
            return []
        return self._report(
            self.prices.volume < 0, "volume is {volume}, negative", "correct it or leave it empty"
        )

    def _gaps(self) -> list[Finding]:
        """Unknown days between a symbol's first and last known day stay unknown; long ones are refused."""
        findings = []
        mask = self.prices.mask
        for column in np.flatnonzero(~mask.all(axis=0) & mask.any(axis=0)):
            known = np.flatnonzero(mask[:, column])
            missing = np.diff(known) - 1
            if not missing.any():
                continue
            longest = int(missing.max())
            before = int(known[int(np.argmax(missing))])
            row = int(self.grid.rows[before, column])
            symbol = self.prices.symbols[column]
            text = f"{int(missing.sum())} days are missing, at most {longest} in a row after {self.prices.dates[before]}"
            if longest > LONG_GAP:
                advice = f"fill the gap, or give what follows a gap of over {LONG_GAP} days its own symbol"
                findings.append(Finding(self.grid.files[column], row, symbol, text, advice))
            else:
                advice = "they are masked, and the symbol cannot be traded on them"
                findings.append(Finding(self.grid.files[column], row, symbol, text, advice, "warning"))
        return findings

    def _splits(self) -> list[Finding]:
        """Prices that look as if a split had not been taken out of them, each with its day."""
        self._suspected = suspected_splits(self.prices)
        findings = []
        for split in self._suspected:
            row = int(self.grid.rows[split.day, split.symbol])
            kind = f"{split.new}:{split.old}" + (" (reverse)" if split.new < split.old else "")
            problem = (
                f"on {self.prices.dates[split.day]} the close is {split.factor:.3g} times the one before, as in a "
                f"{kind} split that was not taken out"
            )
            place = (self.grid.files[split.symbol], row, self.prices.symbols[split.symbol])
            advice = "check that prices are adjusted for splits"
            findings.append(Finding(*place, problem, advice, "warning"))
        return findings

    def _jumps(self) -> list[Finding]:
        close = self.prices.close
        with np.errstate(divide="ignore", invalid="ignore"):
            change = close[1:] / close[:-1]
        bad = np.zeros_like(self.prices.mask)
        bad[1:] = (change > JUMP) | ((change > 0) & (change < 1 / JUMP))
        for split in self._suspected:
            bad[split.day, split.symbol] = False
        return self._report(
            bad,
            f"close jumps by more than a factor of {JUMP:g} to {{close}}",
            "check that prices are adjusted for splits",
            severity="warning",
        )

    def _constant(self) -> list[Finding]:
        close = self.prices.close
        known = self.prices.mask
        highest = np.where(known, close, -np.inf).max(axis=0)
        lowest = np.where(known, close, np.inf).min(axis=0)
        constant = np.flatnonzero((highest == lowest) & (known.sum(axis=0) > 1))
        return [
            Finding(
                self.grid.files[i],
                None,
                self.prices.symbols[i],
                "the close never changes",
                "remove it?",
                "warning",
            )
            for i in constant
        ]

    def _future(self) -> list[Finding]:
        """Rows of days that have not been: a wrong century, day and month exchanged, or somebody's forecast."""
        dates = self.prices.dates
        tomorrow = np.datetime64(datetime.now(UTC).date()) + np.timedelta64(1, "D")
        later = np.flatnonzero(dates > tomorrow)
        if not later.size or not self.rules.judge:
            return []
        column = int(np.argmax(self.grid.rows[later[0]] > 0))
        row = int(self.grid.rows[later[0], column])
        problem = f"the date {dates[later[0]]} is in the future{more(len(later))}"
        return [Finding(self.grid.files[column], row, None, problem, "correct the dates or remove the rows")]

    def _irregular(self) -> list[Finding]:
        found = frequency_of(self.prices.dates)
        if found.regular:
            return []
        advice = "annual figures are computed with it"
        file = self.grid.files[0]
        return [Finding(file, None, None, f"the calendar is {found.name}", advice, "warning")]
