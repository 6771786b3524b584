"""What `eigen2 data list` and `data build` find out; printing it is left to the caller."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigen2.market.catalogue import samples

if TYPE_CHECKING:
    from rich.console import Group

    from eigen2.section import Section


def sample_facts() -> list[dict[str, Any]]:
    """Every market known by name, with its caveats."""
    return [{**asdict(sample), "caveats": list(sample.caveats)} for sample in samples()]


def sample_list() -> Group:
    """For a terminal of any width: a line of facts for each market, then what it is and what to beware of."""
    from rich.console import Group, RenderableType
    from rich.padding import Padding
    from rich.text import Text

    lines: list[RenderableType] = []
    for s in samples():
        dates = f", {s.first} to {s.last}" if s.first else ""
        facts = f"  {s.kind}, {s.symbols} symbols, {s.days} days{dates}"
        lines.append(Text(s.name, style="bold") + Text(facts, style="not bold"))
        lines += [Padding(Text(sentence), (0, 0, 0, 2)) for sentence in (s.summary, *s.caveats)]
        lines.append(Text(""))
    return Group(*lines[:-1])


def build_prices(source: Path, out: Path, config: Section | None = None) -> dict[str, Any]:
    """Reads and checks a file and writes it as one canonical parquet file; facts about what was written."""
    from eigen2.market.canonical import write_canonical
    from eigen2.market.check import rules_of
    from eigen2.market.config import MarketConfig

    rules = rules_of(config if isinstance(config, MarketConfig) else None)
    prices, warnings = write_canonical(source.expanduser(), out, rules)
    days, symbols = prices.close.shape
    said = [finding.sentence() for finding in warnings]
    return {"file": str(out), "days": days, "symbols": symbols, "warnings": said}
