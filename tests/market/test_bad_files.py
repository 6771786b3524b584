"""Every kind of bad file gets one sentence that names file, row and symbol, and says what to do."""

import gzip
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigen2.errors import DamagedStateError, DataError
from eigen2.harness.tables import from_parquet
from eigen2.market.canonical import write_canonical
from eigen2.market.check import check_file, read_prices
from eigen2.market.config import MarketConfig
from eigen2.market.findings import UnusableFile
from eigen2.market.kept import read_kept
from eigen2.market.load import load_market
from eigen2.market.shape import market_shape
from eigen2.market.table import Rules, open_table

WIDE = "date,AAA,BBB\n2020-01-02,10,20\n2020-01-03,11,21\n2020-01-06,12,22\n"
LONG = (
    "date,symbol,open,high,low,close,volume\n"
    "2020-01-02,AAA,10,11,9,10.5,100\n"
    "2020-01-02,BBB,20,21,19,20.5,200\n"
    "2020-01-03,AAA,10,11,9,10.5,100\n"
    "2020-01-03,BBB,20,21,19,20.5,200\n"
)


def text(content: str, name: str = "prices.csv") -> Callable[[Path], Path]:
    return raw(content.encode(), name)


def raw(content: bytes, name: str = "prices.csv") -> Callable[[Path], Path]:
    def write(directory: Path) -> Path:
        path = directory / name
        path.write_bytes(content)
        return path

    return write


def parquet(columns: dict[str, object]) -> Callable[[Path], Path]:
    def write(directory: Path) -> Path:
        path = directory / "prices.parquet"
        pq.write_table(pa.table(columns), path)
        return path

    return write


def truncated_parquet(directory: Path) -> Path:
    path = parquet({"date": ["2020-01-02"] * 500, "AAA": np.arange(500.0)})(directory)
    path.write_bytes(path.read_bytes()[:-40])
    return path


def a_directory(directory: Path) -> Path:
    path = directory / "prices.csv"
    path.mkdir()
    return path


def long_gap(directory: Path) -> Path:
    days = pd.bdate_range("2020-01-01", periods=60).strftime("%Y-%m-%d")
    frame = pd.DataFrame({"date": days, "AAA": np.arange(1.0, 61), "BBB": np.arange(1.0, 61)})
    frame.loc[10:39, "BBB"] = np.nan
    path = directory / "prices.csv"
    frame.to_csv(path, index=False)
    return path


BAD_FILES: dict[str, tuple[Callable[[Path], Path], int | None, str | None, str]] = {
    # name: (writer, row, symbol, part of the problem)
    "empty file": (raw(b""), None, None, "is empty"),
    "only blanks": (text("\n  \n"), None, None, "nothing but blanks"),
    "header only": (text("date,AAA,BBB\n"), None, None, "a header but no rows"),
    "an empty directory": (a_directory, None, None, "is a directory without"),
    "prose": (text("The quick brown fox\njumps\n"), 1, None, "is not a table"),
    "random bytes": (raw(bytes(range(256)) * 4), None, None, "neither text nor parquet"),
    "a pickle": (raw(pickle.dumps({"AAA": [1.0]})), None, None, "is a pickle"),
    "a pickle named parquet": (raw(pickle.dumps([1]), "p.parquet"), None, None, "is a pickle"),
    "a text pickle": (raw(pickle.dumps({"AAA": [1.0]}, protocol=0)), 1, None, "is not a table"),
    "truncated gzip": (raw(gzip.compress(WIDE.encode())[:-9]), None, None, "damaged gzip"),
    "zstd": (raw(b"(\xb5/\xfd" + bytes(60)), None, None, "zstd"),
    "an Excel workbook": (raw(b"PK\x03\x04" + bytes(60), "prices.xlsx"), None, None, "Excel"),
    "UTF-16": (raw(WIDE.encode("utf-16")), None, None, "UTF-16"),
    "Latin-1": (raw(WIDE.replace("AAA", "CAFÉ").encode("latin-1")), 1, None, "not UTF-8"),
    "truncated parquet": (truncated_parquet, None, None, "truncated or damaged parquet"),
    "CSV named parquet": (text(WIDE, "prices.parquet"), None, None, "named parquet but is not"),
    "parquet without rows": (parquet({"date": pa.array([], pa.date32()), "AAA": pa.array([], pa.float64())}),
                             None, None, "columns but no rows"),
    "parquet of lists": (parquet({"date": ["2020-01-02"], "AAA": [[1.0, 2.0]]}), None, None, "lists or records"),
    "parquet of bytes": (parquet({"date": ["2020-01-02"], "AAA": [pickle.dumps(1.0)]}), 1, "AAA",
                         "not a finite number"),
    "JSON": (text('[{"date": "2020-01-02", "AAA": 1}]'), None, None, "is JSON"),
    "an error page": (text("<!DOCTYPE html>\n<html>,</html>\n"), None, None, "is HTML"),
    "an escape sequence for a name": (text(WIDE.replace("BBB", "B\x1b[31mB")), None, "'B\\x1b[31mB'", "no name of a symbol"),
    "an open quote": (text(WIDE.replace("21", '"21')), 3, "BBB", "close is 21 2020-01-06,12,22, which is not"),
    "digits grouped by underscores": (text(WIDE.replace("21", "2_1")), 3, "BBB", "close is 2_1"),
    "the year 20": (text(WIDE.replace("2020-01-03", "0020-01-03")), 3, None, "does not exist"),
    "ragged line": (text(WIDE + "2020-01-07,1\n"), 5, None, "2 fields where the header has 3"),
    "too many fields": (text(WIDE + "2020-01-07,1,2,3\n"), 5, None, "4 fields where the header has 3"),
    "no date column": (text(WIDE.replace("date", "when")), None, None, "no column named date"),
    "no close column": (text("date,symbol\n2020-01-02,AAA\n"), None, None, "no column named close"),
    "nameless column": (text(WIDE.replace("AAA", "")), 1, None, "column 2 has no name"),
    "duplicate symbol": (text(WIDE.replace("BBB", "AAA")), 1, None, "more than one column AAA"),
    "volumes alone": (text("date,open,volume\n2020-01-02,1,2\n"), 1, None, "no column named close"),
    "several unknown columns": (text(LONG.replace("volume", "alpha").replace("low", "beta")), None, None, "unknown column beta"),
    "a symbol beside fields": (text("date,open,close,AAPL\n2020-01-02,1,2,3\n"), None, None, "unknown column AAPL"),
    "unknown column": (text(LONG.replace("volume", "momentum")), None, None, "unknown column momentum"),
    "day first dates": (text(WIDE.replace("2020-01-03", "03/01/2020")), 3, None, "date 03/01/2020 cannot be read"),
    "impossible date": (text(WIDE.replace("2020-01-03", "2020-02-31")), 3, None, "does not exist"),
    "missing date": (text(WIDE.replace("2020-01-03", "")), 3, None, "date is missing"),
    "numbers as dates": (parquet({"date": [43831], "AAA": [1.0]}), 1, None, "cannot be read"),
    "the year 111623": (parquet({"date": pa.array([3_460_000_000_000_000], pa.timestamp("ms")), "AAA": [1.0]}), 1, None,
                        "cannot be read"),
    "intraday": (text(WIDE.replace("2020-01-03", "2020-01-03 09:30")), 3, None, "time of day"),
    "time zones": (text(WIDE.replace("2020-01-03", "2020-01-03T00:00:00+02:00")), 3, None, "time zone"),
    "duplicate date": (text(WIDE.replace("2020-01-03", "2020-01-02")), 3, None, "2020-01-02 occurs twice"),
    "unsorted dates": (text(WIDE.replace("2020-01-03", "2020-02-03")), 4, None, "2020-01-06 comes after"),
    "duplicate row": (text(LONG.replace("2020-01-03,BBB", "2020-01-03,AAA")), 5, "AAA", "occurs twice"),
    "unsorted symbol": (text(LONG.replace("2020-01-03,BBB", "2019-01-03,BBB")), 5, "BBB", "comes after"),
    "missing symbol": (text(LONG.replace("2020-01-03,BBB", "2020-01-03,")), 5, None, "symbol is missing"),
    "a word for a price": (text(WIDE.replace("21", "n/a")), 3, "BBB", "close is n/a"),
    "infinite price": (text(WIDE.replace("21", "inf")), 3, "BBB", "close is inf"),
    "zero price": (text(WIDE.replace("21", "0")), 3, "BBB", "close is 0, not positive"),
    "negative price": (text(WIDE.replace("21", "-21")), 3, "BBB", "close is -21, not positive"),
    "symbol without data": (text(WIDE.replace("20\n", "\n").replace("21", "").replace("22", "")), None, "BBB",
                            "no close at all"),
    "high below low": (text(LONG.replace("AAA,10,11,9", "AAA,10,9,11", 1)), 2, "AAA", "high 9 is below low 11"),
    "close above high": (text(LONG.replace("20.5", "22", 1)), 3, "BBB", "close 22 is above high 21"),
    "open below low": (text(LONG.replace("BBB,20", "BBB,18", 1)), 3, "BBB", "open 18 is below low 19"),
    "negative volume": (text(LONG.replace("200", "-5")), 3, "BBB", "volume is -5"),
    "day without close": (text(LONG.replace("20.5,200\n2020-01-03", ",200\n2020-01-03")), 3, "BBB", "no close"),
    "a day to come": (text(WIDE.replace("2020-01-06", "2999-01-06")), 4, None, "2999-01-06 is in the future"),
    "long gap": (long_gap, 11, "BBB", "at most 30 in a row"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_file_is_refused_with_place_and_advice(kind: str, tmp_path: Path) -> None:
    write, row, symbol, problem = BAD_FILES[kind]
    path = write(tmp_path)
    findings = check_file(path)
    finding = next((found for found in findings if problem in found.problem), None)
    assert finding is not None, [found.sentence() for found in findings]
    assert (finding.file, finding.row, finding.symbol) == (str(path), row, symbol)
    assert finding.severity == "error"
    assert len(finding.advice) > 8
    with pytest.raises(DataError) as refusal:
        read_prices(path)
    assert problem in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kind", ["a pickle", "truncated parquet", "zero price", "long gap"])
def test_nothing_is_written_from_a_bad_file(kind: str, tmp_path: Path) -> None:
    path = BAD_FILES[kind][0](tmp_path)
    with pytest.raises(DataError):
        write_canonical(path, tmp_path / "out.parquet")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    trap = tmp_path / "sprung"

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (trap,)  # type: ignore[return-value]

    for protocol in range(6):
        path = tmp_path / f"protocol{protocol}.csv"
        path.write_bytes(pickle.dumps(Trap(), protocol=protocol))
        assert check_file(path)
    assert not trap.exists()


def test_missing_file_suggests_the_nearest_market() -> None:
    with pytest.raises(DataError, match="did you mean planted_reversal"):
        load_market(MarketConfig(data="planted_reversl"), seed=0)
    with pytest.raises(DataError, match="known names are sp20"):
        load_market(MarketConfig(data="qqqqzzzz"), seed=0)


def test_too_few_rows_says_how_many_there_are_and_how_many_are_needed(tmp_path: Path) -> None:
    path = text(WIDE)(tmp_path)
    (finding,) = check_file(path, MarketConfig())
    assert "has 3 days, but 628 are needed" in finding.problem
    with pytest.raises(DataError, match="has 3 days, but 628 are needed"):
        load_market(MarketConfig(data=str(path)), seed=0)
    assert check_file(path) == []


def test_repeated_trouble_is_counted_not_listed(tmp_path: Path) -> None:
    rows = "".join(f"{day},-1,5\n" for day in pd.bdate_range("2020-01-01", periods=300).strftime("%Y-%m-%d"))
    findings = check_file(text("date,AAA,BBB\n" + rows)(tmp_path))
    wrong = [finding for finding in findings if finding.severity == "error"]
    assert len(wrong) == 1
    assert "and 299 more" in wrong[0].problem


def test_suspicious_but_usable_files_are_warned_about(tmp_path: Path) -> None:
    content = (
        "date,AAA,BBB,CCC\n2020-01-02,10,20,5\n2020-01-03,11,,5\n2020-01-06,12,22,5\n2020-01-07,50,22,5\n"
    )
    findings = check_file(text(content)(tmp_path))
    assert {finding.severity for finding in findings} == {"warning"}
    said = " ".join(finding.sentence() for finding in findings)
    assert "BBB: 1 days are missing, at most 1 in a row after 2020-01-02" in said
    assert "AAA: close jumps by more than a factor of 3 to 50" in said
    assert "CCC: the close never changes" in said


def test_errors_come_before_warnings(tmp_path: Path) -> None:
    findings = check_file(text(WIDE.replace("12", "900").replace("22", "-1"))(tmp_path))
    assert [finding.severity for finding in findings] == ["error", "warning"]


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a directory"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "prices.csv"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(DataError, match=kind):
        read_prices(path)
    assert market_shape(MarketConfig(data=str(path))) is None


def test_parquet_that_unfolds_to_more_than_there_is_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "prices.parquet"
    rows = 1_000_000
    zeros = pa.array(np.zeros(rows))
    table = pa.table({"date": zeros, "symbol": pa.array(["AAA"] * rows), "close": zeros})
    pq.write_table(table, path, compression="zstd")
    assert path.stat().st_size < 20_000
    memory = SimpleNamespace(available=10_000_000)
    monkeypatch.setattr("eigen2.bounds.psutil.virtual_memory", lambda: memory)
    with pytest.raises(DataError, match="24,000,000 bytes"):
        read_prices(path)
    assert market_shape(MarketConfig(data=str(path))) is None
    with pytest.raises(DamagedStateError, match="24,000,000 bytes"):
        read_kept(path, path)
    with pytest.raises(ValueError, match="24,000,000 bytes"):
        from_parquet(path.read_bytes())


def test_a_gzip_file_that_unfolds_beyond_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = raw(gzip.compress(WIDE.encode() + b"\n" * 10_000_000), "prices.csv.gz")(tmp_path)
    monkeypatch.setattr("eigen2.bounds.psutil.virtual_memory", lambda: SimpleNamespace(available=5_000_000))
    (finding,) = check_file(path)
    assert "does not fit into memory" in finding.problem


def test_parquet_with_other_rows_than_it_says_is_refused(tmp_path: Path) -> None:
    """As a damaged footer has it; here the file is another one when it is read."""
    path, days = tmp_path / "prices.parquet", pd.bdate_range("2020-01-01", periods=3)
    whole = pd.DataFrame({"date": days.astype(str), "symbol": "A", "close": 1.0})
    whole.to_parquet(path)
    table = open_table(path, Rules())
    whole[:0].to_parquet(path)
    with pytest.raises(UnusableFile, match="has 3 rows and holds 0"):
        table.read([0, 1], [2])
    with pytest.raises(UnusableFile, match="first row is missing"):
        table.sample(1)
