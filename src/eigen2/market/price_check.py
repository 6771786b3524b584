"""What `eigen2 data check` says about a file: what was read, what is wrong with it, and what a run would not take."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from eigen2.errors import ConfigError, DataError
from eigen2.market.check import inspect, rules_of
from eigen2.market.config import MarketConfig
from eigen2.market.data import Split
from eigen2.market.findings import Finding, by_severity, errors
from eigen2.market.frequency import Frequency, frequency_of
from eigen2.market.grid import Grid
from eigen2.market.load import refusals, used_days
from eigen2.market.prices import Prices
from eigen2.market.splits import length_note, make_splits
from eigen2.market.stock_splits import suspected_splits

SHOWN: Final = 8
"""Names listed in a line; the rest are counted, and all of them are in the JSON."""


@dataclass(frozen=True)
class PriceCheck:
    """What was found in a price file."""

    file: Path
    findings: list[Finding]
    facts: dict[str, Any] = field(default_factory=dict)
    """What was read; empty where nothing could be."""
    refused: list[str] = field(default_factory=list)
    """What the settings ask for and these prices do not have."""

    @property
    def split_days(self) -> dict[str, int]:
        """Days of train, validation and holdout; empty where there are too few."""
        return {name: split["days"] for name, split in self.facts.get("splits", {}).items()}

    def also_refused(self, sentences: list[str]) -> "PriceCheck":
        return replace(self, refused=[*self.refused, *sentences])

    @property
    def ok(self) -> bool:
        return not errors(self.findings) and not self.refused

    def to_json(self) -> dict[str, Any]:
        findings = [finding.to_json() for finding in self.findings]
        return {
            "file": str(self.file),
            "ok": self.ok,
            **self.facts,
            "findings": findings,
            "refused": self.refused,
        }

    def lines(self) -> list[str]:
        """What was read, a line per finding, and whether the file can be used if it can."""
        found = [f"{finding.severity}: {finding.sentence()}" for finding in self.findings]
        refused = [f"error: {sentence}" for sentence in self.refused]
        said = [*_described(self.facts), *found, *refused]
        return [*said, f"{self.file} can be used."] if self.ok else said

    def require_usable(self) -> None:
        wrong = [finding.sentence() for finding in errors(self.findings)]
        if wrong or self.refused:
            count = len(wrong) + len(self.refused)
            sentence = (
                f"{self.file} cannot be used: {count} problem{'s, each' if count > 1 else ','} listed above."
            )
            raise DataError(sentence) if wrong else ConfigError(sentence)


def check_prices(file: Path, config: MarketConfig) -> PriceCheck:
    """Reads a file, checks it, and whether a run with this config would take it."""
    grid, findings = inspect(file.expanduser(), rules_of(config))
    if grid is None:
        return PriceCheck(file, findings)
    refused = []
    for error in refusals(grid.prices, config, "the file"):
        if isinstance(error, DataError):
            problem, _, advice = str(error).partition("; ")
            findings.append(Finding(str(file), None, None, problem, advice))
        else:
            refused.append(str(error))
    if (said := length_note(config, frequency_of(grid.prices.dates))) is not None:
        problem, _, advice = said.partition("; ")
        findings.append(Finding(str(file), None, None, problem, advice, "warning"))
    return PriceCheck(file, by_severity(findings), describe(grid, config), refused)


def describe(grid: Grid, config: MarketConfig) -> dict[str, Any]:
    """Everything read, as JSON."""
    prices = grid.prices
    found = frequency_of(prices.dates)
    return {
        "format": grid.source,
        "prices": [name for name in ("open", "high", "low", "close", "volume") if name in prices.arrays()],
        "symbols": list(prices.symbols),
        "days": prices.days,
        "first": str(prices.dates[0]),
        "last": str(prices.dates[-1]),
        "frequency": found.name,
        "period": found.period,
        "periods_per_year": found.periods_per_year,
        "calendar_gaps": calendar_gaps(prices, found),
        "gaps": symbol_gaps(prices),
        **listings(prices),
        "suspected_splits": [
            {"symbol": prices.symbols[split.symbol], "date": str(prices.dates[split.day]), "ratio": f"{split.new}:{split.old}"}
            for split in suspected_splits(prices)
        ],
        "splits": _splits(prices, config),
    }  # fmt: skip


def calendar_gaps(prices: Prices, frequency: Frequency) -> list[dict[str, Any]]:
    """Stretches without any row, longer than holidays are: more than four periods, and ten days."""
    usual = 366 / frequency.periods_per_year
    step = np.diff(prices.dates.astype("datetime64[D]").astype(np.int64))
    return [
        {"after": str(prices.dates[day]), "before": str(prices.dates[day + 1]), "days": int(step[day])}
        for day in np.flatnonzero(step > int(max(10.0, 4 * usual)))
    ]


def symbol_gaps(prices: Prices) -> dict[str, dict[str, Any]]:
    """Days without a close between a symbol's first and its last, by symbol."""
    gaps = {}
    for column in np.flatnonzero(~prices.mask.all(axis=0) & prices.mask.any(axis=0)):
        known = np.flatnonzero(prices.mask[:, column])
        missing = np.diff(known) - 1
        if missing.any():
            before = prices.dates[known[int(np.argmax(missing))]]
            gaps[prices.symbols[column]] = {
                "missing": int(missing.sum()),
                "longest": int(missing.max()),
                "after": str(before),
            }
    return gaps


def listings(prices: Prices) -> dict[str, dict[str, str]]:
    """Symbols that begin after the first day or end before the last, with that day."""
    known = prices.mask.any(axis=0)
    first = np.argmax(prices.mask, axis=0)
    last = prices.days - 1 - np.argmax(prices.mask[::-1], axis=0)
    late = {prices.symbols[i]: str(prices.dates[first[i]]) for i in np.flatnonzero(known & (first > 0))}
    gone = {
        prices.symbols[i]: str(prices.dates[last[i]])
        for i in np.flatnonzero(known & (last < prices.days - 1))
    }
    return {"listed_late": late, "delisted": gone}


def _splits(prices: Prices, config: MarketConfig) -> dict[str, Any]:
    """Training, validation and holdout with their dates; empty if there are too few days for them."""
    try:
        start, stop = used_days(prices, config)
        used = prices.rows(start, stop)
        splits = make_splits(used.days, config, "the file")
    except (ConfigError, DataError):
        return {}
    return {split.name: _dated(used, split) for split in splits}


def _dated(prices: Prices, split: Split) -> dict[str, Any]:
    first, last = prices.dates[split.start], prices.dates[split.stop - 1]
    return {"days": split.days, "first": str(first), "last": str(last)}


def _described(facts: dict[str, Any]) -> list[str]:
    if not facts:
        return []
    lines = {
        "format": facts["format"],
        "prices": ", ".join(facts["prices"]),
        "symbols": f"{len(facts['symbols'])}: {_some(facts['symbols'])}",
        f"{facts['period']}s": f"{facts['days']}, {facts['first']} to {facts['last']}",
        "frequency": f"{facts['frequency']}; a year has {facts['periods_per_year']}",
        "gaps": _some([f"{s} {gap['missing']} days" for s, gap in facts["gaps"].items()]) or "none",
        "listed late": _some([f"{s} {day}" for s, day in facts["listed_late"].items()]) or "none",
        "delisted": _some([f"{s} {day}" for s, day in facts["delisted"].items()]) or "none",
    }
    if facts["calendar_gaps"]:
        lines["no rows"] = _some([f"{gap['after']} to {gap['before']}" for gap in facts["calendar_gaps"]])
    if facts["delisted"] and "delisting_penalty" in facts:
        lines["delisted"] += f"; a holder loses {facts['delisting_penalty']:.0%} (env.delisting_penalty)"
    for name, split in facts["splits"].items():
        lines[name] = f"{split['days']} {facts['period']}s, {split['first']} to {split['last']}"
    return [f"{name:12} {text}" for name, text in lines.items()]


def _some(names: list[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
