"""The live page in a browser: the list, one run, and a step that arrives while it is watched."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def served(root: Path, **environment: str) -> Iterator[str]:
    command = [sys.executable, "-m", "eigen2", "dashboard", "--root", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[0]
        finally:
            server.terminate()


def test_a_path_outside_the_root_and_a_missing_token_are_refused(browser: Any, tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "runs" / "one")
    (tmp_path / "secret.txt").write_text("nobody should read this")
    token = "a-token-of-enough-length"
    with served(tmp_path / "runs", EIGEN2_TOKEN=token) as address:
        place, query = address.split("/?")
        context = browser.new_context()
        page = context.new_page()
        assert page.goto(place).status == 401
        assert page.goto(f"{place}/api/runs").status == 401
        assert page.goto(f"{place}/?token=another-token-of-length").status == 401
        page.goto(f"{place}/?{query}")
        page.wait_for_selector("body[data-loaded='1']", timeout=PATIENCE)
        assert token not in page.url
        for escape in ("..%2f..%2fsecret.txt", "..%2fsecret.txt", "one%2f..%2f..%2fsecret.txt", "%2e%2e"):
            for below in ("run", "api/run"):
                answer = page.goto(f"{place}/{below}/{escape}")
                assert answer.status == 404 or page.url.rstrip("/") == place
                assert "nobody should read" not in page.content()
        context.close()


@pytest.mark.slow
def test_a_metrics_line_is_seen_within_two_seconds(browser: Any, address: str, tmp_path: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{address}/run/one")
    page.wait_for_selector(".chart .main-svg", timeout=PATIENCE)
    waited = []
    for step in (4711, 4712, 4713):
        began = time.monotonic()
        with open(tmp_path / "runs" / "one" / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "best_score": 0.5}) + "\n")
        page.wait_for_selector(f"body[data-step*='{step}']", timeout=PATIENCE)
        waited.append(time.monotonic() - began)
    assert min(waited) < 2.0
    context.close()
