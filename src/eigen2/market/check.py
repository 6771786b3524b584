"""`eigen2 data check FILE`, and the reader behind it: a file is read only if the check finds no error."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from eigen2.errors import DataError
from eigen2.market.config import MarketConfig
from eigen2.market.findings import Finding, UnusableFile, errors, first_sentences
from eigen2.market.layout import Grid, more, read_grid
from eigen2.market.prices import Prices
from eigen2.market.splits import days_needed, too_few_days
from eigen2.market.table import read_table

LONG_GAP: Final = 20
"""A symbol unknown for more days in a row is two listings under one name."""

JUMP: Final = 3.0
"""A close that changes by more than this factor in a day is suspected of being an unadjusted split."""

Cells = npt.NDArray[np.bool_]


def check_file(path: Path, config: MarketConfig | None = None) -> list[Finding]:
    """Everything found in a file, errors first. With a config, also whether it has days enough for its splits."""
    grid, findings = _inspect(path)
    if grid is not None and config is not None and grid.prices.days < days_needed(config):
        few = too_few_days(grid.prices.days, config, "the file")
        problem, advice = few.split("; ", 1)
        findings.append(Finding(str(path), None, None, problem, advice))
    return sorted(findings, key=lambda finding: finding.severity)


def read_prices(path: Path) -> tuple[Prices, list[Finding]]:
    """The prices and the warnings about them; DataError with the first few errors if there are any."""
    grid, findings = _inspect(path)
    wrong = errors(findings)
    if grid is None or wrong:
        raise DataError(first_sentences(wrong))
    return grid.prices, findings


def _inspect(path: Path) -> tuple[Grid | None, list[Finding]]:
    try:
        grid, findings = read_grid(read_table(path))
    except UnusableFile as unusable:
        return None, [unusable.finding]
    if grid is None:
        return None, findings
    return grid, _Inspection(str(path), grid).findings()


class _Inspection:
    """The checks of values; each reports a symbol once, at its first offending row."""

    def __init__(self, file: str, grid: Grid) -> None:
        self.file, self.grid, self.prices = file, grid, grid.prices

    def findings(self) -> list[Finding]:
        return [
            *self._empty_symbols(),
            *self._positive(),
            *self._range(),
            *self._without_close(),
            *self._volume(),
            *self._gaps(),
            *self._jumps(),
            *self._constant(),
            *self._future(),
        ]

    def _report(self, bad: Cells, problem: str, advice: str, **severity: str) -> list[Finding]:
        """`bad` [day, symbol] -> a finding per symbol; `{field}` in the text is the array's value there."""
        findings = []
        for column in np.flatnonzero(bad.any(axis=0)):
            day = int(np.argmax(bad[:, column]))
            values = {name: f"{array[day, column]:g}" for name, array in self.prices.arrays().items()}
            text = problem.format(**values) + more(int(bad[:, column].sum()))
            row = int(self.grid.rows[day, column])
            findings.append(Finding(self.file, row, self.prices.symbols[column], text, advice, **severity))  # type: ignore[arg-type]
        return findings

    def _empty_symbols(self) -> list[Finding]:
        empty = np.flatnonzero(~self.prices.mask.any(axis=0))
        return [
            Finding(self.file, None, self.prices.symbols[column], "has no close at all", "remove this symbol")
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
                findings.append(Finding(self.file, row, symbol, text, advice))
            else:
                advice = "they are masked, and the symbol cannot be traded on them"
                findings.append(Finding(self.file, row, symbol, text, advice, "warning"))
        return findings

    def _jumps(self) -> list[Finding]:
        close = self.prices.close
        with np.errstate(divide="ignore", invalid="ignore"):
            change = close[1:] / close[:-1]
        bad = np.zeros_like(self.prices.mask)
        bad[1:] = (change > JUMP) | ((change > 0) & (change < 1 / JUMP))
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
                self.file, None, self.prices.symbols[i], "the close never changes", "remove it?", "warning"
            )
            for i in constant
        ]

    def _future(self) -> list[Finding]:
        last = self.prices.dates[-1]
        if last <= np.datetime64(datetime.now(UTC).date()) + np.timedelta64(1, "D"):
            return []
        row = int(self.grid.rows[-1].max())
        return [
            Finding(
                self.file, row, None, f"the last date {last} is in the future", "check the dates", "warning"
            )
        ]
