"""Every format we read, given nonsense with true hashes: refused in one of the designed ways, or good for use.

By default about two thousand inputs, always the same ones; `./run test --slow fuzz` takes a hundred thousand new ones
and prints how many there were of each format.
"""

import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from targets import (  # noqa: E402
    ConfigFile,
    FactsFile,
    LogFile,
    ManifestFile,
    PriceTable,
    PriceText,
    ReplayManifest,
    ReplaySegment,
    StateBlob,
    Target,
)

from eigen2.harness.evaluating import opened  # noqa: E402
from eigen2.harness.run import Run  # noqa: E402

FORMATS = {
    "manifest": (300, 16_000),
    "replay manifest": (300, 16_000),
    "segment": (300, 16_000),
    "state": (300, 14_000),
    "config.yaml": (150, 8_000),
    "run.json": (200, 8_000),
    "logs": (200, 10_000),
    "prices csv": (150, 8_000),
    "prices parquet": (150, 8_000),
}
"""Inputs by default, and in the long version."""
ROOM = 3 << 30
"""Addresses that the long version may take beside those it has: what a small input unfolds to is bounded."""

Make = Callable[[str], Target]


@pytest.fixture
def make(finished: Path, tmp_path: Path) -> Iterator[Make]:
    """A target by the name of its format."""
    with opened(Run(finished), lambda sentence: None) as experiment:
        trainer = experiment.trainer
        made: dict[str, Callable[[], Target]] = {
            "manifest": lambda: ManifestFile(finished),
            "replay manifest": ReplayManifest,
            "segment": ReplaySegment,
            "state": lambda: StateBlob(trainer, trainer.state_dict()),
            "config.yaml": lambda: ConfigFile(finished, tmp_path),
            "run.json": lambda: FactsFile(finished, tmp_path),
            "logs": lambda: LogFile(finished, tmp_path),
            "prices csv": lambda: PriceText(tmp_path),
            "prices parquet": lambda: PriceTable(tmp_path),
        }
        yield lambda name: made[name]()


def fuzzed(target: Target, examples: int, *, repeat: bool) -> int:
    """Read this many inputs; returns how many there were."""
    count = 0

    @settings(
        max_examples=examples, derandomize=repeat, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.randoms(use_true_random=False))
    def once(random: Random) -> None:
        nonlocal count
        count += 1
        target.once(random)

    once()
    return count


@pytest.mark.parametrize("name", FORMATS)
def test_nonsense_is_refused_in_a_designed_way_or_is_good_for_use(make: Make, name: str) -> None:
    target = make(name)
    assert fuzzed(target, FORMATS[name][0], repeat=True) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_fuzz(make: Make, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = make(name)
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, before[1]))
    began = time.process_time()
    try:
        count = fuzzed(target, FORMATS[name][1], repeat=False)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    with capsys.disabled():
        seconds = time.process_time() - began
        sys.stdout.write(f"\n{name}: {count:,} inputs, {target.accepted:,} accepted, {seconds:.0f} CPU s\n")
