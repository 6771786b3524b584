"""The laboratory that runs commands, and the price files of vendors, are shared by the tests of the command line, of runs, of faults and of resuming."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

# Hypothesis fails an example that takes 200 ms; on a busy machine, or while coverage is measured, any may.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

sys.path.insert(0, str(Path(__file__).parent / "harness" / "lab"))
sys.path.insert(0, str(Path(__file__).parent / "market" / "vendors"))

from command_lab import ORDERS, PENDULUM, Lab  # noqa: E402

# Whoever starts the tests with nohup has hang-ups ignored, and whatever they start would ignore them too.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

LEDGERS = Path(tempfile.mkdtemp(prefix="eigen2-ledgers-"))
"""No test writes the ledger of holdout uses of whoever runs the tests."""
os.environ["XDG_STATE_HOME"] = str(LEDGERS / "state")
os.environ["EIGEN2_LEDGER"] = str(LEDGERS / "session.jsonl")
_numbers = count()


@pytest.fixture(autouse=True)
def ledger(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of its own for every test, so that none counts the uses of another; it is made by the first use."""
    path = LEDGERS / f"{next(_numbers)}.jsonl"
    monkeypatch.setenv("EIGEN2_LEDGER", str(path))
    return path


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--stride", type=int, default=1, metavar="N",
        help="tests that try everything, one at a time, try only every N-th: ./run test --slow every_operation --stride 7",
    )  # fmt: skip


@pytest.fixture(scope="session")
def stride(request: pytest.FixtureRequest) -> int:
    """1 unless somebody is in a hurry."""
    return int(request.config.getoption("--stride"))


def pytest_sessionfinish() -> None:
    shutil.rmtree(LEDGERS, ignore_errors=True)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One process that has imported everything, from which commands are forked."""
    with Lab(tmp_path_factory.mktemp("lab"), warm_up=(ORDERS, PENDULUM)) as found:
        yield found


@pytest.fixture(scope="session")
def finished(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that nobody may change."""
    return lab.train("finished", ORDERS, tmp_path_factory.mktemp("finished"))
