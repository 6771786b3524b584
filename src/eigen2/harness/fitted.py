"""A table that fits: a narrow terminal gets fewer columns, and no figure is ever cut."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

GAP = 2
WORDS = 32
"""Cells that words get before other columns are dropped; longer ones continue in the next line."""


@dataclass(frozen=True)
class Column:
    heading: str
    words: bool = False
    """Words begin at the left and may be broken where there is no room; numbers end at the right and never are."""
    spared: int | None = None
    """When it goes: the lowest number first; None: it stays."""


class FittedTable:
    """`rows` hold one text per column."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[Sequence[Text | str]]) -> None:
        self.columns = list(columns)
        self.rows = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self._fitting(options.max_width)
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
        for index in shown:
            column = self.columns[index]
            table.add_column(
                column.heading,
                justify="left" if column.words else "right",
                no_wrap=not column.words,
                overflow="fold",
                min_width=None if column.words else self._width(index),
            )
        for row in self.rows:
            table.add_row(*(row[index] for index in shown))
        yield table

    def _fitting(self, room: int) -> list[int]:
        """The columns that there is room for."""
        shown = list(range(len(self.columns)))
        going = sorted((c.spared, index) for index, c in enumerate(self.columns) if c.spared is not None)
        for _, index in going:
            if self._needed(shown) <= room:
                break
            shown.remove(index)
        return shown

    def _needed(self, shown: Sequence[int]) -> int:
        widths = {index: self._width(index) for index in shown}
        kept = (min(w, WORDS) if self.columns[index].words else w for index, w in widths.items())
        return sum(kept) + GAP * (len(shown) - 1)

    def _width(self, index: int) -> int:
        return max(cell_len(self.columns[index].heading), *(row[index].cell_len for row in self.rows), 0)
