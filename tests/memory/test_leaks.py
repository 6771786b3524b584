"""A leak is seen, and the sentence says in which phase, of what, and who holds it; what fills by design is no leak."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import eigen2
from eigen2.harness.commands import memory_facts
from eigen2.harness.journal import read_log

SCRIPT = Path(__file__).with_name("leaky.py")


def train(kind: str, root: Path, *more: str, code: int = 0, **environment: str) -> dict[str, Any]:
    """In a fresh process; returns what `eigen2 memory --json` prints."""
    source = str(Path(eigen2.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(SCRIPT), kind, str(root), *more],
        env=os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return memory_facts("leaky", root)


@pytest.mark.parametrize(
    ("leak", "phase", "kind", "holder"),
    [
        ("graphs", "train", "torch tensors with a graph", "Regression.losses"),
        ("environments", "evaluate", "environments of class TableEnv", "Regression.environments"),
        ("cache", "evolve", "numpy arrays", "Regression.cache"),
        ("objects_array", "train", "numpy arrays", "Regression.table"),
        ("iterator", "train", "numpy arrays", "Regression.iterators"),
        ("objects", "evolve", "objects of type list", ""),
    ],
)
def test_a_leak_is_named(tmp_path: Path, leak: str, phase: str, kind: str, holder: str) -> None:
    facts = train(leak, tmp_path)
    assert facts["leak"] is True
    sentence = facts["verdict"]
    assert sentence.startswith(f"{phase} phase grows ")
    assert kind in sentence
    assert holder in sentence
    assert facts["slope_bytes_per_step"] > 1_500_000


def test_what_fills_by_design_is_no_leak(tmp_path: Path) -> None:
    facts = train("filling", tmp_path)
    assert facts["leak"] is False
    assert facts["owner_slopes"]["experience"] == pytest.approx(4_000_000)
    assert "experience grew by 4 MB per step, as declared" in facts["verdict"]


def test_a_run_without_leak_has_none(tmp_path: Path) -> None:
    facts = train("nothing", tmp_path)
    assert facts["leak"] is False
    assert facts["verdict"].startswith("no leak: ")


def test_a_resume_is_no_growth(tmp_path: Path) -> None:
    """The process that goes on is larger by 200 MB from its beginning; only the steps inside a process count."""
    first = train("nothing", tmp_path, "alg.steps=26", code=1, LEAKY_STOP="13")
    facts = train("resume", tmp_path, LEAKY_BALLAST="200000000")
    assert (first["leak"], facts["leak"]) == (False, False)
    records = read_log(tmp_path / "leaky" / "memory.jsonl")
    assert [record["step"] for record in records] == list(range(1, 27))
    assert len({record["session"] for record in records}) == 2
    assert records[-1]["rss_bytes"] - records[0]["rss_bytes"] > 150_000_000
