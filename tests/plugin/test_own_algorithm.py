"""`examples/own_algorithm.py`, registered by the entry point beside this file: only PYTHONPATH says that it is there."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import eigen2

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
PATHS = os.pathsep.join(map(str, (Path(eigen2.__file__).parents[1], EXAMPLES, HERE)))
TASK = ("alg=random_search", "env=gym", "env.max_episode_steps=50", "alg.tries=20")


def start(where: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "eigen2", *arguments]
    environment = os.environ | {"PYTHONPATH": PATHS}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=where, env=environment, stdout=pipe, stderr=pipe, text=True)


def run(where: Path, *arguments: str) -> str:
    process = start(where, *arguments)
    out, error = process.communicate()
    assert process.returncode == 0, error
    return out


def test_it_is_trained_killed_resumed_and_evaluated_without_a_change_to_eigen2(tmp_path: Path) -> None:
    run(tmp_path, "train", *TASK, "run.name=whole", "run.report=false")
    log = tmp_path / "runs" / "killed" / "metrics.jsonl"
    with start(tmp_path, "train", *TASK, "run.name=killed", "run.report=false") as process:
        while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") >= 5):
            time.sleep(0.02)
        process.kill()
    run(tmp_path, "train", "--resume", "runs/killed")
    prints = [run(tmp_path, "fingerprint", f"runs/{name}").split()[0] for name in ("whole", "killed")]
    assert prints[0] == prints[1]
    facts = json.loads(run(tmp_path, "evaluate", "runs/killed", "--json"))
    assert (facts["env"], facts["episodes"]) == ("Pendulum-v1", 20)


def test_the_example_is_short() -> None:
    assert len((EXAMPLES / "own_algorithm.py").read_text(encoding="utf-8").splitlines()) < 60
