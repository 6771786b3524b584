"""The live page in a browser: the list, one run, and a step that arrives while it is watched."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RUN = Path(__file__).parents[1] / "upgrade" / "format2" / "erl_weights"
PATIENCE = 120_000


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    shutil.copytree(RUN, tmp_path / "runs" / "one")
    command = [sys.executable, "-m", "eigen2", "dashboard", "--root", str(tmp_path / "runs"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[0].rstrip("/")
        finally:
            server.terminate()


@pytest.mark.parametrize("width", [1200, 390])
def test_a_step_arrives_while_the_page_is_open(
    browser: Any, address: str, tmp_path: Path, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    page.wait_for_selector("body[data-loaded='1']", timeout=PATIENCE)
    page.get_by_role("link", name="one").click()
    page.wait_for_selector("body[data-step]", timeout=PATIENCE)
    page.wait_for_selector(".chart .main-svg", timeout=PATIENCE)
    with open(tmp_path / "runs" / "one" / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"step": 4711, "best_score": 0.5}) + "\n")
    page.wait_for_selector("body[data-step*='4711']", timeout=PATIENCE)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Browsers ask for an icon by themselves.
    assert [error for error in errors if "404" not in error] == []
    context.close()
