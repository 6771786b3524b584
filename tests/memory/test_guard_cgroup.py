"""In a real cgroup: a run that would exceed it stops itself, and is the same run when it has gone on elsewhere."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import eigen2
from eigen2.harness.journal import read_log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
V1 = Path("/sys/fs/cgroup/memory")
SCRIPT = Path(__file__).with_name("leaky.py")
WIDE = (
    "env.data=random_walk", "env.synthetic.days=500", "env.synthetic.symbols=400", "env.window=8", "env.trading_days=60",
    "env.settlement_days=5", "env.max_holding_days=5", "env.validation_days=80", "env.holdout_days=80", "env.embargo_days=5",
    "alg.population=4", "alg.generations=20", "alg.windows=32", "alg.validation_windows=2", "alg.learners=1", "alg.elites=1",
    "alg.gradient_steps=2", "alg.batch=16", "alg.hidden=8", "alg.direct_steps=0", "alg.learning_starts=10",
    "replay.capacity=1000000",
)  # fmt: skip
"""67 MB of experience in each of 20 generations, 2 GB in all."""


@pytest.fixture
def group() -> Iterator[Path]:
    if not os.access(V1 / "cgroup.procs", os.W_OK):
        pytest.skip("needs root and cgroups of version 1 at /sys/fs/cgroup/memory")
    place = V1 / f"eigen2-guard-{os.getpid()}"
    place.mkdir()
    yield place
    place.rmdir()


def inside(group: Path, size: int, *command: str) -> subprocess.CompletedProcess[str]:
    (group / "memory.limit_in_bytes").write_text(str(size))
    joined = (
        "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); os.execv(sys.argv[2], sys.argv[2:])"
    )
    source = str(Path(eigen2.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", joined, str(group / "cgroup.procs"), sys.executable, *command],
        env=os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


EIGEN2 = ("-c", "from eigen2.cli import main; main()")


def test_stopped_at_a_gigabyte_and_a_half_and_resumed_under_three_it_is_the_same_run(
    group: Path, tmp_path: Path
) -> None:
    def eigen2(size: int, *words: str) -> subprocess.CompletedProcess[str]:
        return inside(group, size, *EIGEN2, *words)

    small, large = 1_500_000_000, 3_000_000_000
    refused = eigen2(small, "train", *WIDE, f"run.root={tmp_path}", "run.name=a")
    assert refused.returncode == 4
    assert "1.50 GB are available (cgroup /" in refused.stderr
    planned = eigen2(small, "plan", *WIDE, f"run.root={tmp_path}")
    assert planned.returncode == 4
    assert "It fits with replay.capacity=" in planned.stderr
    assert not (tmp_path / "a").exists()

    stopped = eigen2(small, "train", *WIDE, f"run.root={tmp_path}", "run.name=a", "--force")
    assert stopped.returncode == 75, stopped.stderr
    assert "Stopped by the memory guard, " in stopped.stderr
    assert "replay grew by " in stopped.stderr
    kinds = [record["kind"] for record in read_log(tmp_path / "a" / "events.jsonl")]
    assert "memory_short" in kinds
    assert "memory_full" in kinds
    assert eigen2(large, "train", "--resume", str(tmp_path / "a")).returncode == 0

    whole = eigen2(large, "train", *WIDE, f"run.root={tmp_path}", "run.name=whole")
    assert whole.returncode == 0, whole.stderr
    one, other = (eigen2(large, "fingerprint", str(tmp_path / name)).stdout for name in ("a", "whole"))
    assert one == other != ""


@pytest.mark.parametrize("kind", ["step", "filling"])
def test_a_run_that_grows_fast_is_not_killed(group: Path, tmp_path: Path, kind: str) -> None:
    done = inside(
        group, 800_000_000, str(SCRIPT), kind, str(tmp_path), "alg.steps=1000", "run.root=" + str(tmp_path)
    )
    assert done.returncode == 75, done.stderr
    assert "Stopped by the memory guard, " in done.stderr
