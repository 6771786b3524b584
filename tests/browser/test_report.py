"""The report in a browser: charts are drawn, without errors and without a network, by day and by night, on a phone."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from eigen2.report.page import write_report

RUN = Path(__file__).parents[1] / "upgrade" / "format2" / "erl_weights"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_every_chart_is_drawn(browser: Any, tmp_path: Path, scheme: str, width: int) -> None:
    shutil.copytree(RUN, tmp_path / "run")
    report = write_report(tmp_path / "run")
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-drawn]", timeout=120_000, state="attached")
    charts = page.locator("[data-figure]").count()
    assert charts >= 3
    assert page.locator("[data-figure] .main-svg").count() >= charts
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert errors == []
    context.close()
