"""Pictures of the report and of the dashboard for docs/pictures, taken by a browser without a window.

    python scripts/take_pictures.py [--runs DIR]

Trains two short runs into a temporary directory (or takes those in DIR), opens their pages in Chromium and keeps what
is to be seen. Needs `./run setup dev` and chromium.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EIGEN2 = [sys.executable, "-m", "eigen2"]
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
MARKET, CONTROL = "erl_sp20_seed7", "pwm_tiny_pendulum_seed7"
PATIENCE = 120_000


def trained(root: Path) -> None:
    own_ledger = os.environ | {"EIGEN2_LEDGER": str(root / "ledger.jsonl"), "OMP_NUM_THREADS": "1"}
    for words in (
        ["train"],
        ["evaluate", MARKET, "--split", "holdout"],
        ["train", "alg=pwm_tiny", "env=pendulum"],
    ):
        place = "--log-dir" if words[0] == "train" else "--root"
        subprocess.run([*EIGEN2, *words, place, str(root)], check=True, env=own_ledger)


@contextmanager
def dashboard(root: Path) -> Iterator[str]:
    command = [*EIGEN2, "dashboard", "--root", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[0].rstrip("/")
        finally:
            server.terminate()


def picture(browser: Any, address: str, name: str, scheme: str, width: int, height: int, ready: str) -> None:
    """The top of a page, `height` pixels of it, as a PNG of few colours."""
    from PIL import Image

    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(ready, timeout=PATIENCE, state="attached")
    page.wait_for_timeout(1_000)
    target = PICTURES / f"{name}.png"
    page.screenshot(path=target)
    context.close()
    Image.open(target).convert("RGB").quantize(256, method=Image.Quantize.FASTOCTREE).save(
        target, optimize=True
    )
    print(f"{target}  {target.stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=Path, help="where the runs are already")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="eigen2-pictures-") as place:
        root = chosen.runs or Path(place)
        if chosen.runs is None:
            trained(root)
        PICTURES.mkdir(parents=True, exist_ok=True)
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright, dashboard(root) as address:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            drawn, listed, live = "html[data-drawn]", "body[data-loaded]", "body[data-step] .chart .main-svg"
            market, control = (f"{address}/run/{name}" for name in (MARKET, CONTROL))
            picture(browser, f"{market}/report", "report-light", "light", 1200, 2450, drawn)
            picture(browser, f"{market}/report", "report-dark", "dark", 1200, 2450, drawn)
            picture(browser, f"{control}/report", "report-control", "light", 1200, 2000, drawn)
            picture(browser, address, "dashboard", "light", 1200, 420, listed)
            picture(browser, market, "dashboard-run", "dark", 1200, 1100, live)
            picture(browser, market, "dashboard-phone", "light", 390, 844, live)
            browser.close()


if __name__ == "__main__":
    main()
