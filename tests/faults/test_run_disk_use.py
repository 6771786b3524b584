"""Disk use is bounded: a run keeps what its checkpoints name, and hardly more."""

import json
from collections.abc import Callable
from pathlib import Path

from command_lab import ORDERS, Lab

LARGER = ("alg.generations=25", "alg.hidden=32", "alg.windows=1", "alg.validation_windows=1")


def test_a_run_of_25_generations_takes_little_more_than_its_checkpoints(
    lab: Lab, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    run = lab.train("mine", ORDERS, tmp_path, *LARGER)
    named: dict[str, int] = {}
    for manifest in (run / "checkpoints").glob("*.json"):
        objects = json.loads(manifest.read_bytes())["body"]["objects"].values()
        named |= {ref["hash"]: ref["size"] for ref in objects}
    used = sum(path.stat().st_blocks * 512 for path in run.rglob("*") if path.is_file())
    record_property("bytes_named", sum(named.values()))
    record_property("bytes_used", used)
    assert used <= 1.3 * sum(named.values())
    series = json.loads((run / "evaluations.jsonl").read_text())["series"].values()
    assert sorted(
        path.parent.name + path.name for path in (run / "objects").rglob("*") if path.is_file()
    ) == sorted({*named, *series})
