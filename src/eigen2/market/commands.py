"""What `eigen2 data list`, `data check` and `data build` find out; printing it is left to the caller."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigen2.errors import ConfigError, DataError
from eigen2.market.catalogue import samples
from eigen2.market.config import MarketConfig
from eigen2.market.findings import Finding, errors
from eigen2.section import Section

if TYPE_CHECKING:
    from rich.table import Table


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


@dataclass(frozen=True)
class PriceCheck:
    """What was found in a price file."""

    file: Path
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        return not errors(self.findings)

    def to_json(self) -> dict[str, Any]:
        findings = [finding.to_json() for finding in self.findings]
        return {"file": str(self.file), "ok": self.ok, "findings": findings}

    def lines(self) -> list[str]:
        """One line per finding, and whether the file can be used if it can."""
        found = [f"{finding.severity}: {finding.sentence()}" for finding in self.findings]
        return [*found, f"{self.file} can be used."] if self.ok else found

    def require_usable(self) -> None:
        wrong = errors(self.findings)
        if wrong:
            count = f"{len(wrong)} problem{'s' if len(wrong) > 1 else ''}"
            raise DataError(f"{self.file} cannot be used: {count}; {wrong[0].sentence()}")


def check_prices(file: Path, config: Section) -> PriceCheck:
    """Reads and checks a file, and whether it has days enough for the splits of `config`."""
    if not isinstance(config, MarketConfig):
        raise ConfigError("`data check` reads prices; use it with env=trading.")
    from eigen2.market.check import check_file

    return PriceCheck(file, check_file(file, config))


def build_prices(source: Path, out: Path) -> dict[str, Any]:
    """Reads and checks a file and writes it as one canonical parquet file; facts about what was written."""
    from eigen2.market.canonical import write_canonical

    prices, warnings = write_canonical(source, out)
    days, symbols = prices.close.shape
    said = [finding.sentence() for finding in warnings]
    return {"file": str(out), "days": days, "symbols": symbols, "warnings": said}
