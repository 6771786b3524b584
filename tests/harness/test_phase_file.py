"""What a run is doing right now: said late, seldom and without any claim on the disk."""

import json
from pathlib import Path

from eigen2.harness.phase_file import EVERY_SECONDS, FIRST_SECONDS, PhaseFile
from eigen2.harness.run import Run


def test_the_phase_is_written_after_a_while_and_goes_with_the_process(tmp_path: Path) -> None:
    now = 0.0
    file, run, path = PhaseFile(lambda: now), Run(tmp_path), tmp_path / "phase.json"
    file.note(run, "evaluate")
    assert not path.exists()
    now = FIRST_SECONDS + 1
    file.note(run, "evaluate")
    assert json.loads(path.read_text())["phase"] == "evaluate"
    now += EVERY_SECONDS / 2
    file.note(run, "train")
    assert json.loads(path.read_text())["phase"] == "evaluate"
    now += EVERY_SECONDS
    file.note(run, "train")
    assert json.loads(path.read_text())["phase"] == "train"
    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_refuses_it_is_not_heard_of(tmp_path: Path) -> None:
    now = 0.0
    file = PhaseFile(lambda: now)
    now = FIRST_SECONDS + 1
    file.note(Run(tmp_path / "nowhere"), "train")
    file.remove()
