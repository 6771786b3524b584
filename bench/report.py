"""How long looking takes: the report of a run, and the live page over many runs.

    python bench/report.py [--runs 200] [--lines 100000]

A report of a 25-generation run of 16 agents (trained first, small networks), its time in CPU seconds and its size; then the
dashboard as a process of its own over a root of 200 runs, one of them with 100,000 lines of metrics: milliseconds to the
first page, to the list of runs, to one run (first and second time), and from a new line in metrics.jsonl to the word that
the browser hears. Medians of five; the last line is one JSON object.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from eigen2.report.page import write_report

EIGEN2 = [sys.executable, "-m", "eigen2"]
SMALL = (
    "alg.population=16", "alg.generations=25", "alg.hidden=16", "env.window=16", "alg.windows=4", "alg.gradient_steps=4",
    "alg.direct_steps=0",
)  # fmt: skip


def trained(root: Path) -> Path:
    done = subprocess.run(
        [*EIGEN2, "train", *SMALL, f"run.root={root}", "run.name=one"], capture_output=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return root / "one"


def report_figures(run: Path, below: Path) -> dict[str, float]:
    seconds = []
    for _ in range(3):
        began = time.process_time()
        page = write_report(run, below / "report.html")
        seconds.append(time.process_time() - began)
    return {"report_cpu_seconds": statistics.median(seconds), "report_bytes": page.stat().st_size}


def many_runs(run: Path, root: Path, count: int, lines: int) -> None:
    for number in range(count):
        shutil.copytree(run, root / f"run{number:03d}")
    with open(root / "run000" / "metrics.jsonl", "a", encoding="utf-8") as file:
        for step in range(26, lines):
            file.write(
                json.dumps({"step": step, "fitness_best": step % 97 / 7, "best_score": step / lines}) + "\n"
            )


def milliseconds(url: str) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=60) as answer:
        answer.read()
    return 1000 * (time.perf_counter() - began)


def live_milliseconds(base: str, log: Path) -> float:
    """From a line in the log to the event, as a browser waits for it."""
    with urllib.request.urlopen(f"{base}/api/run/run001/changes", timeout=60) as events:
        events.readline()
        events.readline()
        began = time.perf_counter()
        with open(log, "a", encoding="utf-8") as file:
            file.write('{"step": 99}\n')
        while b"true" not in events.readline():
            continue
        return 1000 * (time.perf_counter() - began)


def dashboard_figures(root: Path) -> dict[str, float]:
    command = [*EIGEN2, "dashboard", "--root", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            base = server.stdout.readline().split()[0].rstrip("/")
            facts = {
                "first_page_ms": milliseconds(base),
                "first_list_ms": milliseconds(f"{base}/api/runs"),
                "long_run_first_ms": milliseconds(f"{base}/api/run/run000"),
            }
            for name, place in (
                ("page_ms", ""),
                ("list_ms", "/api/runs"),
                ("long_run_ms", "/api/run/run000"),
            ):
                facts[name] = statistics.median(milliseconds(base + place) for _ in range(5))
            log = root / "run001" / "metrics.jsonl"
            facts["live_ms"] = statistics.median(live_milliseconds(base, log) for _ in range(5))
        finally:
            server.terminate()
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--lines", type=int, default=100_000)
    chosen = parser.parse_args()
    below = Path(tempfile.mkdtemp(prefix="eigen2-bench-report-"))
    try:
        run = trained(below)
        facts: dict[str, Any] = {"bench": "report", "runs": chosen.runs, "lines": chosen.lines}
        facts |= report_figures(run, below)
        (below / "many").mkdir()
        many_runs(run, below / "many", chosen.runs, chosen.lines)
        facts |= dashboard_figures(below / "many")
    finally:
        shutil.rmtree(below)
    for name, value in facts.items():
        print(f"{name:22} {value:,.1f}" if isinstance(value, float) else f"{name:22} {value}")
    print(
        json.dumps(
            {name: round(value, 3) if isinstance(value, float) else value for name, value in facts.items()}
        )
    )


if __name__ == "__main__":
    main()
