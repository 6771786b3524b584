"""A folder of one file per symbol."""

from pathlib import Path

from eigen2.market.columns import date_column, plain_labels
from eigen2.market.findings import Finding, UnusableFile
from eigen2.market.grid import Grid
from eigen2.market.headers import read_pairs
from eigen2.market.roles import roles_of
from eigen2.market.rows import DATA_SUFFIXES, Cells, has_rows, pivot, read_pair_rows, read_rows
from eigen2.market.table import Rules, open_table


def members(path: Path) -> list[Path]:
    """The tables in a folder, by name; what is no table by its suffix is left alone."""
    return sorted(
        file
        for file in path.iterdir()
        if file.is_file() and not file.name.startswith(".") and file.name.lower().endswith(DATA_SUFFIXES)
    )


def read_folder(path: Path, rules: Rules) -> tuple[Grid | None, list[Finding]]:
    """One file per symbol. Files that are no tables by their name are left alone."""
    files = members(path)
    if not files:
        raise UnusableFile(
            path,
            "is a directory without CSV or parquet files",
            "name a file, or a folder of one CSV per symbol",
        )
    tables: list[Cells] = []
    findings: list[Finding] = []
    owner: dict[str, str] = {}
    for file in files:
        try:
            cells, found = _read_member(file, rules)
        except UnusableFile as unusable:
            cells, found = None, [unusable.finding]
        findings += found
        for symbol in cells.symbols if cells is not None else ():
            if symbol in owner:
                problem = f"holds {symbol}, which {owner[symbol]} holds too"
                findings.append(Finding(str(file), None, symbol, problem, "keep one of them"))
            owner[symbol] = file.name
        if cells is not None:
            tables.append(cells)
    if findings:
        return None, findings
    return pivot(tables, f"a folder of {len(files)} files, {tables[0].source}", [])


def _read_member(file: Path, rules: Rules) -> tuple[Cells | None, list[Finding]]:
    table = open_table(file, rules)
    if (pairs := read_pairs(table)) is not None:
        return read_pair_rows(table, *pairs)
    labels = plain_labels(table)
    roles = roles_of([labels.get(place, "") for place in range(len(table.labels))])
    date = date_column(table, roles, labels)
    if not has_rows(roles):
        raise UnusableFile(
            file, "has no column named close", "a file in a folder holds one symbol: date, open, ..., close"
        )
    return read_rows(table, roles, date)
