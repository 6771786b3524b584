"""The page "A day with Eigen2" is what happens: its commands are run one after the other, training with less effort."""

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from command_lab import ORDERS, Lab

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "a-day.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall("```\n(.*?)\n```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith(("eigen2 ", "python "))
]
EFFORT = tuple(
    override for override in ORDERS if override.startswith(("alg.", "env.trading_days", "env.window"))
)


def test_every_command_of_the_day_works(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text("symbol,weight\nAAPL,0.5\nKO,0.5\n")
    (tmp_path / "holdings.csv").write_text("symbol,shares\nAAPL,20\nCASH,9000\n")
    said = {}
    for program, *arguments in COMMANDS:
        if program == "python":
            script, *rest = arguments
            monkeypatch.setattr(sys, "argv", [script, *rest])
            runpy.run_path(str(ROOT / script), run_name="__main__")
            continue
        less = EFFORT if arguments[0] == "train" else ()
        done = lab.run(*arguments, *less, cwd=tmp_path)
        assert done.code == 0, (arguments, done.err)
        said[" ".join(arguments)] = done.out
    checked = said["data check prices.csv"]
    for words in (
        "yfinance, CSV, a column per field and symbol", "6: AAPL, IBM, JNJ, KO, MSFT, XOM",
        "1200, 2016-01-04 to 2020-08-07", "daily; a year has 252", "holdout      251 days", "can be used",
    ):  # fmt: skip
        assert words in checked, checked
    assert (tmp_path / "runs" / "erl_prices_seed7" / "checkpoints" / "final.json").is_file()
    decided = [text for command, text in said.items() if command.startswith("decide")]
    assert ["seen until 2020-08-07" in text for text in decided] == [True, True, False, False]
    assert all("seen until 2020-08-10" in text for text in decided[2:])
    assert "verdict: " in said["evaluate erl_prices_seed7 --split holdout"]
    kinds = {path.name.rpartition("-")[2] for path in Path("runs/erl_prices_seed7/evaluations").iterdir()}
    assert kinds == {"holdout", "validation", "walk_forward"}
