"""What `eigen2 data list` and `data build` find out; printing it is left to the caller."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigen2.market.catalogue import samples

if TYPE_CHECKING:
    from rich.table import Table

    from eigen2.section import Section


def sample_facts() -> list[dict[str, Any]]:
    """Every market known by name, with its caveats."""
    return [{**asdict(sample), "caveats": list(sample.caveats)} for sample in samples()]


def sample_table() -> Table:
    from rich.table import Table

    table = Table(
        "name", "kind", "symbols", "days", "from", "to", "what, and what to beware of", show_lines=True
    )
    for s in samples():
        text = "\n".join([s.summary, *(f"- {caveat}" for caveat in s.caveats)])
        table.add_row(s.name, s.kind, str(s.symbols), str(s.days), s.first or "", s.last or "", text)
    return table


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
