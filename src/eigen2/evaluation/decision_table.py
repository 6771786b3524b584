"""A decision as a table for the terminal; drawing only, nothing is printed here."""

from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text


def decision_table(facts: dict[str, Any], rows: list[dict[str, Any]]) -> Group:
    """What there is to do, symbol by symbol, and what it costs."""
    when = facts["for_date"] if facts["for_date_known"] else f"{facts['for_date']} (expected)"
    title = Text(f"for {when}, at {facts['fills_at']}; seen until {facts['as_of']}", style="italic")
    orders = facts["actions"] != "weights"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("symbol", "do", "weight", "target", "shares", "price", "cost"):
        table.add_column(heading, justify="left" if heading in ("symbol", "do") else "right", no_wrap=True)
    if orders:
        table.add_column("sell at", justify="right", no_wrap=True)
        table.add_column("why", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, orders))
    table.add_row("cash", "", f"{facts['cash_now']:.1%}", f"{facts['cash_target']:.1%}", style="dim")
    cost = Text(
        f"capital {facts['capital']:,.2f}; costs {facts['cost']:,.2f} at the last prices; positions: {_origin(facts)}"
    )
    old = [f"{r['symbol']} was last seen on {r['price_date']}" for r in rows if _stale(r, facts)]
    notes = [Text(f"note: {note}", style="dim") for note in [*old, *facts["notes"]]]
    return Group(title, table, cost, *notes)


def _cells(row: dict[str, Any], orders: bool) -> list[str]:
    cells = [
        row["symbol"], row["action"], f"{row['weight_now']:.1%}", f"{row['weight_target']:.1%}",
        f"{row['shares']:+,.4g}" if row["shares"] else "", _price(row["price"]), f"{row['cost']:,.2f}",
    ]  # fmt: skip
    return [*cells, _price(row["sell_at"]), row["reason"]] if orders else cells


def _price(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}" if value >= 10.0 else f"{value:.4g}"


def _stale(row: dict[str, Any], facts: dict[str, Any]) -> bool:
    return row["price_date"] is not None and row["price_date"] != facts["as_of"]


def _origin(facts: dict[str, Any]) -> str:
    if facts["positions_from"] == "replay":
        return f"those it would hold if it had traded since {facts['replayed_from']}"
    return str(facts["positions_from"])
