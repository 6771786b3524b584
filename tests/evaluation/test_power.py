"""What a verdict says about its own power is what simulated champions of known skill get."""

import importlib.util
import re
from pathlib import Path

import pytest

from eigen2.evaluation.power import error_of_one, hurdle, power

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-results-can-fool-you.md").read_text(encoding="utf-8")


def test_a_single_champion_must_reach_2_3_standard_errors_and_more_of_them_more() -> None:
    assert error_of_one(1) == pytest.approx(0.01)
    assert hurdle(1) == pytest.approx(2.326, abs=1e-3)
    assert hurdle(1) < hurdle(2) < hurdle(5) < hurdle(40)


def test_several_champions_together_err_no_more_than_one() -> None:
    for count in (2, 5, 40):
        assert 1.0 - (1.0 - error_of_one(count)) ** count == pytest.approx(0.01)


def test_power_grows_with_days_and_skill_and_falls_with_every_further_champion() -> None:
    assert power(0.0, 250, 252) == pytest.approx(0.01)
    assert power(2.0, 251, 252) == pytest.approx(0.37, abs=0.01)
    assert power(2.0, 251, 252) < power(2.0, 500, 252) < power(3.0, 500, 252)
    assert power(2.0, 251, 252, candidates=2) < power(2.0, 251, 252)


def test_the_table_on_the_page_is_what_is_computed() -> None:
    rows = re.findall(r"^\| ([0-9.]+) \| (.*) \|$", PAGE, re.MULTILINE)
    assert [float(sharpe) for sharpe, _ in rows] == [0.0, 0.5, 1.0, 2.0, 3.0]
    for sharpe, cells in rows:
        figures = re.findall(r"(\d+)% \((\d+)%\)", cells)
        for days, (simulated, computed) in zip((250, 500, 1500), figures, strict=True):
            expected = 100 * power(float(sharpe), days, 252)
            assert int(computed) == pytest.approx(expected, abs=0.51)
            assert int(simulated) == pytest.approx(expected, abs=10)


def test_simulated_champions_are_found_as_often_as_is_computed() -> None:
    spec = importlib.util.spec_from_file_location("bench_power", ROOT / "bench" / "power.py")
    assert spec is not None
    assert spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    assert bench.found(3.0, 250, 60) == pytest.approx(power(3.0, 250, 252), abs=0.15)
    assert bench.found(0.0, 250, 60) <= 0.05
