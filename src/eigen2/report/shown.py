"""What a page is made of: sections with pictures, tables and sentences; and numbers as people read them."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from eigen2.report.charts import Figure


@dataclass
class Shown:
    """One picture or table under a title."""

    title: str
    figure: Figure | None = None
    rows: list[list[str]] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    text: str = ""
    image: str = ""
    """A picture as a data: address."""
    note: str = ""
    """A sentence under it."""
    wide: bool = False


@dataclass
class Section:
    title: str
    shown: list[Shown] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tone: str = ""
    """How the notes are meant: good, or nothing."""

    def __bool__(self) -> bool:
        return bool(self.shown or self.notes)


def number(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else ("yes" if value else "no")
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return str(value)


def size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds else ""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def moment(value: Any) -> str:
    if not isinstance(value, int | float) or not 0 <= value < 1e11:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(value))


def total(values: Iterable[Any]) -> float:
    return float(sum(value for value in values if isinstance(value, int | float)))


def words(name: str) -> str:
    return name.replace("_", " ")


def table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
