"""An error at every file operation of a short run, one at a time: EIO, ENOSPC, EROFS, EDQUOT, short and torn writes.

The whole takes hours; `./run test --slow every_operation --stride 7` takes every seventh case.
"""

from collections.abc import Iterable, Iterator

import pytest
from command_lab import PENDULUM, Lab, compiled
from failing_disk import ERRORS, Case, FailingDisk, Findings, kinds

TINY = (
    *PENDULUM, "alg.generations=2", "env.max_episode_steps=5", "alg.windows=1", "alg.validation_windows=1",
    "alg.learning_starts=5",
)  # fmt: skip
SAMPLE = 20


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailingDisk]:
    place = tmp_path_factory.mktemp("failing")
    library = compiled("failing_calls.c", place)
    if library is None:
        pytest.skip("a disk that fails on request needs a C compiler and Linux")
    with Lab(place, prefix=("env", f"LD_PRELOAD={library}"), warm_up=(TINY,)) as lab:
        yield FailingDisk(lab, TINY, 2, place)


def examined(
    disk: FailingDisk, cases: Iterable[Case], resumed: bool = False, reads: bool = False
) -> Findings:
    findings = Findings()
    for case in cases:
        disk.examine(case, findings, resumed, reads)
    assert findings.wrong == [], "\n".join([findings.sentence(), *findings.wrong])
    return findings


@pytest.mark.timeout(1200)
def test_a_sample_of_failing_operations_loses_nothing_and_changes_no_bit(disk: FailingDisk) -> None:
    """Spread over the whole run, each error in turn."""
    operations, names = len(disk.operations(resumed=False)), list(ERRORS)
    assert operations > SAMPLE
    cases = [Case(1 + i * operations // SAMPLE, names[i % len(names)]) for i in range(SAMPLE)]
    assert examined(disk, cases).cases == SAMPLE


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("resumed", [False, True], ids=["new", "resumed"])
def test_an_error_at_every_operation_loses_nothing_and_changes_no_bit(
    disk: FailingDisk, resumed: bool, stride: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = disk.operations(resumed)
    cases = [
        Case(index, error)
        for index, line in enumerate(lines, 1)
        for error in ERRORS
        if "write" not in error or " write " in line
    ]
    _tell(capsys, findings := examined(disk, cases[::stride], resumed), len(cases))
    assert stride > 1 or kinds(lines) <= findings.failed


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("resumed", [False, True], ids=["new", "resumed"])
@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "EROFS"])
def test_a_disk_that_dies_at_every_operation_loses_nothing_and_changes_no_bit(
    disk: FailingDisk, error: str, resumed: bool, stride: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """From one operation on all of them fail; then the disk is well again."""
    cases = [Case(index, error, dead=True) for index in range(1, len(disk.operations(resumed)) + 1)]
    _tell(capsys, examined(disk, cases[::stride], resumed), len(cases))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_an_unreadable_sector_at_every_operation_of_a_resume_loses_nothing_and_changes_no_bit(
    disk: FailingDisk, stride: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reading fails, too: each file that a resume opens or reads, once."""
    cases = [Case(index, "EIO") for index in range(1, len(disk.operations(True, reads=True)) + 1)]
    _tell(capsys, examined(disk, cases[::stride], resumed=True, reads=True), len(cases))


def _tell(capsys: pytest.CaptureFixture[str], findings: Findings, cases: int) -> None:
    with capsys.disabled():
        print(f"\nevery operation: of {cases} cases {findings.sentence()}")  # noqa: T201
