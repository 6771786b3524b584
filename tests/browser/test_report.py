"""The report in a browser: charts have data, without errors and without a network, by day and by night, on a phone."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigen2.evaluation.panels import Heat, Lines, Marks, Tree
from eigen2.evaluation.result import Evaluation
from eigen2.harness.run import Run
from eigen2.report.page import write_report

RUN = Path(__file__).parents[1] / "upgrade" / "format2" / "erl_weights"
DRAWN = """() => [...document.querySelectorAll("[data-figure]")].filter(
    chart => chart.querySelector(".trace path, .heatmaplayer image, .trace .point, .trace rect")).length"""


def pictured(run: Path) -> Path:
    """A run with an evaluation that has a chart of every kind."""
    shutil.copytree(RUN, run)
    days = np.arange("2020-01-01", "2020-01-06", dtype="datetime64[D]")
    ramp = np.linspace(0.0, 1.0, 5)
    series = {
        "growth": {"date": days, "champion": ramp, "low": ramp - 1, "high": ramp + 1},
        "weights": {"date": days, "A": ramp, "B": 1 - ramp},
        "prices": {"date": days, "A": 10 + ramp, "B": 20 - ramp},
        "fills": {"date": days[[0, 3, 1]], "symbol": np.array(["A", "A", "B"], object),
                  "side": np.array(["buy", "sell", "buy"], object)},
    }  # fmt: skip
    panels = (
        Lines("Growth", ("champion",), source="growth", x="date", low="low", high="high"),
        Heat("Held", "weights"),
        Marks("Trades", "prices", "fills"),
    )
    Run(run).add_evaluation(Evaluation({"split": "holdout", "verdict": "no evidence"}, "", series, panels))
    births = [
        {"generation": 1, "agent": 0, "operator": "born", "parents": [], "validation": 0.1},
        {"generation": 2, "agent": 1, "operator": "crossover", "parents": [0], "validation": 0.3},
    ]
    (run / "lineage.jsonl").write_text("".join(json.dumps(birth) + "\n" for birth in births))
    Run(run).note(panels=[Tree("Ancestors of the champion", "validation").to_json()])
    return run


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_every_chart_has_data(browser: Any, tmp_path: Path, scheme: str, width: int) -> None:
    report = write_report(pictured(tmp_path / "run"))
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-drawn]", timeout=120_000, state="attached")
    charts = page.locator("[data-figure]").count()
    assert charts >= 6
    assert page.evaluate(DRAWN) == charts
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert "no evidence" in page.locator(".verdict").inner_text()
    # Genealogy: the line of ancestors is in its legend.
    tree = page.locator(".box", has_text="Ancestors of the")
    assert tree.locator(".legendtext", has_text="its best ancestors").count() == 1
    # Another symbol is another curve.
    trades = page.locator(".box", has=page.locator("select"))
    assert trades.locator(".legendtext").all_text_contents() == ["A", "buy", "sell"]
    trades.locator("select").select_option(label="B (1)")
    trades.locator(".legendtext", has_text=re.compile("^B$")).wait_for(timeout=120_000, state="attached")
    assert trades.locator(".legendtext").all_text_contents() == ["B", "buy"]
    assert errors == []
    context.close()
