"""`data list`, `data check` and `data build` return facts and printable things."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from eigen2.errors import DataError
from eigen2.market.catalogue import samples
from eigen2.market.check import read_prices
from eigen2.market.commands import build_prices, sample_facts, sample_list
from eigen2.market.config import MarketConfig
from eigen2.market.price_check import check_prices

BAD = "date,AAA,BBB\n2020-01-02,10,-5\n2020-01-03,11,\n2020-01-06,12,22\n"


def test_every_sample_is_listed_with_its_caveats() -> None:
    facts = json.loads(json.dumps(sample_facts()))
    assert [fact["name"] for fact in facts] == [sample.name for sample in samples()]
    assert set(facts[0]) == {
        "name", "kind", "summary", "symbols", "days", "first", "last", "licence", "source", "caveats",
    }  # fmt: skip
    console = Console(width=200)
    with console.capture() as capture:
        console.print(sample_list())
    assert all(fact["name"] in capture.get() for fact in facts)
    assert "survivors" in capture.get()


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_list_of_samples_uses_the_width_there_is(width: int) -> None:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(sample_list())
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in capture.get()
    assert len(lines) < 12_000 // width


def test_a_bad_file_is_described_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(BAD)
    found = check_prices(path, MarketConfig())
    assert not found.ok
    assert found.to_json()["findings"][0]["severity"] == "error"
    assert any(line.startswith(f"error: {path}") for line in found.lines())
    with pytest.raises(DataError, match=r"cannot be used: 2 problems, each listed above"):
        found.require_usable()


def test_a_good_file_is_called_usable(ragged_file: Path, small: MarketConfig) -> None:
    found = check_prices(ragged_file, small)
    assert found.ok
    assert found.to_json()["ok"] is True
    assert found.lines()[-1] == f"{ragged_file} can be used."
    found.require_usable()


def test_a_built_file_holds_the_same_prices(ragged_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    facts = json.loads(json.dumps(build_prices(ragged_file, out)))
    assert (facts["file"], facts["days"], facts["symbols"]) == (str(out), 400, 4)
    assert any("HOLE" in warning for warning in facts["warnings"])
    assert read_prices(out)[0].fingerprint() == read_prices(ragged_file)[0].fingerprint()


def test_a_setting_decides_what_a_file_leaves_open(tmp_path: Path) -> None:
    source, out = tmp_path / "prices.csv", tmp_path / "out.parquet"
    source.write_text("date,AAA\n01/02/2020,10\n02/03/2020,11\n03/04/2020,12\n")
    with pytest.raises(DataError, match="env.day_first=true or env.day_first=false decides"):
        build_prices(source, out)
    for day_first, last in ((True, "2020-04-03"), (False, "2020-03-04")):
        build_prices(source, out, MarketConfig(day_first=day_first))
        assert str(read_prices(out)[0].dates[-1]) == last
