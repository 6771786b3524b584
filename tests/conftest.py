"""The laboratory that runs commands is shared by the tests of the command line, of runs, of faults and of resuming."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "harness" / "lab"))

from command_lab import ORDERS, PENDULUM, Lab  # noqa: E402


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One process that has imported everything, from which commands are forked."""
    with Lab(tmp_path_factory.mktemp("lab"), warm_up=(ORDERS, PENDULUM)) as found:
        yield found


@pytest.fixture(scope="session")
def finished(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that nobody may change."""
    return lab.train("finished", ORDERS, tmp_path_factory.mktemp("finished"))
