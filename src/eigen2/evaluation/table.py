"""An evaluation as a table for the terminal; drawing only, nothing is printed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from eigen2.evaluation.record import Record
from eigen2.evaluation.statistics import Interval
from eigen2.evaluation.verdict import Edge

if TYPE_CHECKING:
    from eigen2.evaluation.market import MarketEvaluation

MISSING = "-"


def evaluation_table(evaluation: MarketEvaluation) -> Group:
    """The figures of all strategies, the evidence in one line, the verdict, and the caveats."""
    length = f"{evaluation.comparison.days} {evaluation.comparison.frequency.period}s"
    table = Table(title=f"{evaluation.market}, {evaluation.split}, {length}, after costs")
    table.add_column("")
    for heading in ("return", "a year", "Sharpe", "95 % interval", "max drawdown", "turnover", "trades"):
        table.add_column(heading, justify="right")
    table.add_row(*_row(evaluation.name, evaluation.champion), style="bold")
    for name, record in evaluation.benchmarks.items():
        table.add_row(*_row(name.replace("_", " "), record))
    lines = [_excess(evaluation), _evidence(evaluation)]
    caveats = [Text(f"note: {caveat}", style="dim") for caveat in evaluation.caveats]
    colour = "green" if evaluation.verdict.evidence_of_skill else "yellow"
    verdict = Text(f"verdict: {evaluation.verdict.sentence}", style=f"bold {colour}")
    return Group(table, *(Text(line) for line in lines), verdict, *caveats)


def _row(name: str, record: Record) -> tuple[str, ...]:
    figures = record.performance
    return (
        name,
        f"{figures.simple_return:+.1%}",
        f"{figures.cagr:+.1%}",
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


def _evidence(evaluation: MarketEvaluation) -> str:
    parts = [f"trials {evaluation.trials}"]
    if evaluation.effective_trials is not None:
        parts[0] += f" (effective {evaluation.effective_trials:.1f})"
    parts.append(f"deflated Sharpe {_number(evaluation.deflated_sharpe)}")
    parts.append(f"PBO {_number(evaluation.pbo)}")
    if evaluation.split == "holdout":
        parts.append(f"holdout uses {evaluation.holdout_looks}")
    return ", ".join(parts)


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"


def _range(ends: Interval | None) -> str:
    return MISSING if ends is None else f"{ends.low:.2f} .. {ends.high:.2f}"
