"""A repair that is killed at any file operation has lost nothing, and the next one ends as if nothing had happened."""

import shutil
from pathlib import Path

import pytest
from command_lab import Lab, Moment

from eigen2.harness.run import Run
from eigen2.harness.verifying import verify_run


def damaged(finished: Path, place: Path) -> Run:
    """A replay object that all resumable checkpoints share, a log, the best agent and a manifest."""
    run = Run(Path(shutil.copytree(finished, place)))
    manifest = run.checkpoints.load("previous").manifest
    shared = {ref.hash for ref in run.checkpoints.load("latest").manifest.objects.values()}
    records = [entry[2] for entry in (manifest.replay or {})["parts"]["records"] if entry[2] in shared]
    for path in (
        run.checkpoints.objects.path(records[0]), run.log("metrics"), run.path / "best_agent.safetensors",
        run.checkpoints.path("final"),
    ):  # fmt: skip
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x10
        path.write_bytes(content)
    return run


@pytest.fixture
def expected(lab: Lab, finished: Path, tmp_path: Path) -> str:
    return end(lab, damaged(finished, tmp_path / "reference"))


def end(lab: Lab, run: Run) -> str:
    """The fingerprint after a repair."""
    lab.run("repair", run.path)
    report = verify_run(run)
    assert report.ok, report
    assert any("not exact" in sentence for sentence in report.inexact)
    return lab.run("fingerprint", run.path).out


def killed(lab: Lab, finished: Path, place: Path, operation: int, expected: str) -> bool:
    run = damaged(finished, place)
    done = lab.run("repair", run.path, moments=(Moment("operation", "SIGKILL", operation),))
    if not done.killed:
        assert done.code == 5, done.err
        return False
    # The networks are there at every moment, and what was damaged is never the only thing that is left.
    assert lab.run("fingerprint", run.path).code == 0, operation
    assert end(lab, run) == expected, operation
    shutil.rmtree(run.path)
    return True


@pytest.mark.parametrize("operation", [3, 14, 29, 47])
def test_a_killed_repair_is_begun_again(
    lab: Lab, finished: Path, tmp_path: Path, operation: int, expected: str
) -> None:
    assert killed(lab, finished, tmp_path / "mine", operation, expected)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_repair_may_be_killed_at_every_operation(
    lab: Lab, finished: Path, tmp_path: Path, expected: str, stride: int, capsys: pytest.CaptureFixture[str]
) -> None:
    operation = 1
    while killed(lab, finished, tmp_path / "mine", operation, expected):
        operation += stride
    assert operation > 30
    times = -(-(operation - 1) // stride)
    with capsys.disabled():
        print(f"\nrepair: killed at {times} operations, each time begun again and ended alike")  # noqa: T201
