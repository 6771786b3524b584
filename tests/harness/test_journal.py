"""Logs are complete lines, readable at any time, cut back by a resume, and patient with a full disk."""

import math
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from eigen2.harness.journal import Journal, cut_back, read_log

FULL_DISK = """
import os, shutil, sys
from pathlib import Path
from eigen2.harness.journal import Journal, read_log
place = Path(sys.argv[1])
journal = Journal(place, ("metrics", "events"))
journal.append("metrics", {"step": 0})
ballast = open(place / "ballast", "wb")
ballast.write(bytes(shutil.disk_usage(place).free))
ballast.flush()
for step in range(1, 2001):
    journal.append("metrics", {"step": step})
seen = [record["step"] for record in read_log(place / "metrics.jsonl")]
assert seen == list(range(len(seen))) and 0 < len(seen) < 2001, seen
try:
    journal.sizes()
except OSError:
    pass
else:
    sys.exit("sizes must not promise what the disk does not hold")
os.ftruncate(ballast.fileno(), 0)
size = journal.sizes()["metrics"]
assert [record["step"] for record in read_log(place / "metrics.jsonl")] == list(range(2001))
assert size == (place / "metrics.jsonl").stat().st_size
"""


def test_records_can_be_read_while_they_are_written(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, ("metrics",))) as journal:
        journal.append("metrics", {"step": 1, "loss": 0.5})
        assert read_log(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": 0.5}]


def test_a_number_json_does_not_have_becomes_null(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, ("metrics",))) as journal:
        journal.append("metrics", {"loss": math.nan, "deep": {"list": [math.inf, 1.0]}})
    assert read_log(tmp_path / "metrics.jsonl") == [{"loss": None, "deep": {"list": [None, 1.0]}}]


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":1}\n{"step":2}\n{"ste')
    assert [record["step"] for record in read_log(path)] == [1, 2]


def test_a_log_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    assert read_log(tmp_path / "metrics.jsonl") == []


def test_a_resume_cuts_back_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, ("metrics", "events"))) as journal:
        journal.append("metrics", {"step": 1})
        sizes = journal.sizes()
        journal.append("metrics", {"step": 2})
        journal.event("resume", "later")
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(b'{"step":3,"lo')
    cut_back(tmp_path, sizes)
    assert read_log(tmp_path / "metrics.jsonl") == [{"step": 1}]
    assert read_log(tmp_path / "events.jsonl") == []


def test_cutting_back_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "evaluations.jsonl").write_bytes(b'{"split":"holdout"}\n')
    cut_back(tmp_path, {"metrics": 0})
    assert read_log(tmp_path / "evaluations.jsonl") == [{"split": "holdout"}]


def test_a_full_disk_keeps_records_waiting_in_order(tmp_path: Path) -> None:
    prefix = (
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=64k none "$0" && exec "$@"',
        str(tmp_path),
    )
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small disk needs root and util-linux")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this container may not mount a tmpfs")
    command = [*prefix, sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
