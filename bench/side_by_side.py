"""Runs of a benchmark as processes of their own, one thread each, a few at a time."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def run_all(script: str, jobs: Sequence[Sequence[object]], workers: int) -> list[dict[str, Any]]:
    """`script --one ...` for every job; each prints one JSON line. Progress goes to stderr."""

    def spawn(job: Sequence[object]) -> dict[str, Any]:
        command = [sys.executable, script, "--one", *(str(part) for part in job)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{job} failed: {done.stderr[-2000:]}")
        return dict(json.loads(done.stdout.splitlines()[-1]))

    results = []
    with ThreadPoolExecutor(workers) as pool:
        for count, result in enumerate(pool.map(spawn, jobs), start=1):
            results.append(result)
            print(f"{count}/{len(jobs)} {json.dumps(result)}", file=sys.stderr, flush=True)
    return results
