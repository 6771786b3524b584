"""What is wrong with a price file, where, and what to do about it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Finding:
    """One fact about one file. Errors make it unusable; warnings and notes travel with the data as caveats."""

    file: str
    row: int | None
    """Line of a CSV file (the header is line 1), row of a parquet file counted from 1."""
    symbol: str | None
    problem: str
    advice: str
    severity: Literal["error", "warning", "note"] = "error"

    def sentence(self) -> str:
        place = self.file
        if self.row is not None:
            place += f" row {self.row}"
        if self.symbol is not None:
            place += f", {self.symbol}"
        return f"{place}: {self.problem}; {self.advice}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class UnusableFile(Exception):
    """Raised inside the reader when nothing further can be said about a file."""

    def __init__(self, path: Path, problem: str, advice: str, row: int | None = None) -> None:
        self.finding = Finding(str(path), row, None, problem, advice)
        super().__init__(self.finding.sentence())


SEVERITIES = ("error", "warning", "note")


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Errors first; what is said twice is said once."""
    once = dict.fromkeys(findings)
    return sorted(once, key=lambda finding: SEVERITIES.index(finding.severity))


def shown(cell: object) -> str:
    """A cell as a message tells it: on one line, short, without what a terminal would obey."""
    text = " ".join(str(cell).split())
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= 60 else f"{text[:60]}..."


def more(count: int) -> str:
    return "" if count <= 1 else f" (and {count - 1} more like it)"


def errors(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity == "error"]


def first_sentences(findings: Sequence[Finding], limit: int = 3) -> str:
    """The first few findings in one line, and how many were left out."""
    shown = " | ".join(finding.sentence() for finding in findings[:limit])
    rest = len(findings) - limit
    return shown if rest <= 0 else f"{shown} | and {rest} more: run `eigen2 data check` to see them all"
