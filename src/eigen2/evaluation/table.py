"""An evaluation as a table for the terminal; drawing only, nothing is printed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from eigen2.evaluation.power import DEFLATED_LEVEL
from eigen2.evaluation.record import Record
from eigen2.evaluation.statistics import Interval
from eigen2.evaluation.verdict import Edge

if TYPE_CHECKING:
    from eigen2.evaluation.market import MarketEvaluation

MISSING = "-"
COLUMNS = ("return", "a year", "Sharpe", "95 % interval", "drawdown", "turnover", "trades")
SPARED = ("trades", "turnover", "return")
"""Columns that a narrow terminal does without, the first one first."""


def evaluation_table(evaluation: MarketEvaluation) -> Group:
    """The figures of all strategies, the evidence, the verdict, and the caveats."""
    lines = [_excess(evaluation), *_evidence(evaluation)]
    caveats = [Text(f"note: {caveat}", style="dim") for caveat in evaluation.caveats]
    colour = "green" if evaluation.verdict.evidence_of_skill else "yellow"
    verdict = Text(f"verdict: {evaluation.verdict.sentence}", style=f"bold {colour}")
    return Group(_Figures(evaluation), *(Text(line) for line in lines), verdict, *caveats)


class _Figures:
    """As many columns as the terminal has room for; no figure is ever cut."""

    def __init__(self, evaluation: MarketEvaluation) -> None:
        length = f"{evaluation.comparison.days} {evaluation.comparison.frequency.period}s"
        self._title = f"{evaluation.market}, {evaluation.split}, {length}, after costs"
        rows = {evaluation.name: evaluation.champion, **evaluation.benchmarks}
        self._rows = [
            (name.replace("_", " "), dict(zip(COLUMNS, _row(record), strict=True)))
            for name, record in rows.items()
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns, spared = list(COLUMNS), list(SPARED)
        while self._width(columns) > options.max_width and spared:
            columns.remove(spared.pop(0))
        table = Table(
            title=self._title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
        )
        table.add_column("", no_wrap=True)
        for heading in columns:
            table.add_column(heading, justify="right", no_wrap=True)
        for number, (name, figures) in enumerate(self._rows):
            table.add_row(name, *(figures[heading] for heading in columns), style="" if number else "bold")
        yield table

    def _width(self, columns: list[str]) -> int:
        names = max(len(name) for name, _ in self._rows)
        wide = (max(len(heading), *(len(row[heading]) for _, row in self._rows)) for heading in columns)
        return names + sum(2 + width for width in wide)


def _row(record: Record) -> tuple[str, ...]:
    figures = record.performance
    return (
        _percent(figures.simple_return),
        _percent(figures.cagr),
        _number(figures.sharpe),
        _range(figures.sharpe_ci),
        f"{figures.max_drawdown:.1%}",
        f"{record.turnover:.1f}x",
        f"{record.trades:.0f}",
    )


def _excess(evaluation: MarketEvaluation) -> str:
    comparison = evaluation.comparison
    line = f"over equal weight {_edge(comparison.excess)}"
    if evaluation.share_of_oracle is not None:
        line += f", {evaluation.share_of_oracle:.0%} of the oracle's"
    return f"{line}; at its own exposure (beta {comparison.beta:.2f}) {_edge(comparison.alpha)}"


def _edge(edge: Edge) -> str:
    return f"{edge.annual:+.1%} a year [{edge.ci.low:+.1%}, {edge.ci.high:+.1%}]"


def _evidence(evaluation: MarketEvaluation) -> list[str]:
    """What decides on this split, what was tried on the validation days, and how often the holdout was used."""
    count, uses = evaluation.verdict.candidates, evaluation.uses
    deciding = f"deflated Sharpe {_number(evaluation.verdict.probability)} on these {evaluation.split} days"
    deciding += f" for {count:.3g} candidates" if count > 1.0 else ""
    lines = [f"{deciding} (evidence needs more than {DEFLATED_LEVEL})"]
    if evaluation.effective_trials is not None:
        tried = f"trials {evaluation.trials} (effective {evaluation.effective_trials:.1f})"
        chosen = _number(evaluation.validation_deflated_sharpe)
        there = "" if evaluation.split == "validation" else f", deflated Sharpe there {chosen}"
        lines.append(f"chosen on validation days: {tried}{there}, PBO {_number(evaluation.pbo)}")
    if uses is not None:
        by = "" if uses.champions == 1 else f" by {uses.champions} champions"
        behind = f" with {uses.trials} trials behind them" if uses.trials else ""
        where = (
            f"; they are counted in {uses.ledger}, and deleting it resets the count" if uses.ledger else ""
        )
        lines.append(f"holdout uses {uses.total}{by}{behind}{where}")
    return lines


def _percent(value: float) -> str:
    return f"{value:+.1%}" if abs(value) < 100.0 else f"{value:+.1e}"


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"


def _range(ends: Interval | None) -> str:
    return MISSING if ends is None else f"{ends.low:.2f} .. {ends.high:.2f}"
