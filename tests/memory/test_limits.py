"""The smallest limit counts, wherever it is set."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import eigen2
from eigen2.memory.limits import Limit, in_use, limit

V1 = Path("/sys/fs/cgroup/memory")
NO_LIMIT = 9223372036854771712


def proc(tmp_path: Path, cgroup: str, mount: str) -> Path:
    """A process as the kernel describes it."""
    place = tmp_path / "proc"
    place.mkdir()
    (place / "cgroup").write_text(cgroup + "\n")
    (place / "mountinfo").write_text(mount + "\n")
    return place


def test_without_a_cgroup_the_machine_is_the_limit(tmp_path: Path) -> None:
    found = limit(tmp_path)
    assert (found.bytes, found.source) == (psutil.virtual_memory().total, "machine")
    assert 0 < in_use(found) < found.bytes


def test_the_smallest_level_of_a_version_2_hierarchy_counts(tmp_path: Path) -> None:
    top = tmp_path / "fs"
    (top / "jobs" / "mine").mkdir(parents=True)
    (top / "jobs" / "memory.max").write_text("3000000\n")
    (top / "jobs" / "mine" / "memory.max").write_text("max\n")
    (top / "jobs" / "memory.current").write_text("2000000\n")
    (top / "jobs" / "memory.stat").write_text(
        "anon 900000\nactive_file 300000\ninactive_file 400000\nshmem 5\n"
    )
    found = limit(proc(tmp_path, "0::/jobs/mine", f"41 31 0:38 / {top} rw,relatime - cgroup2 cgroup2 rw"))
    assert found == Limit(3_000_000, "cgroup /jobs", top / "jobs")
    assert in_use(found) == 1_300_000


def test_a_version_1_hierarchy_counts_where_no_limit_is_a_huge_number(tmp_path: Path) -> None:
    top = tmp_path / "fs"
    (top / "mine").mkdir(parents=True)
    (top / "memory.limit_in_bytes").write_text(f"{NO_LIMIT}\n")
    (top / "mine" / "memory.limit_in_bytes").write_text("5000000\n")
    (top / "mine" / "memory.usage_in_bytes").write_text("4000000\n")
    (top / "mine" / "memory.stat").write_text(
        "active_file 7\ntotal_active_file 1000000\ntotal_inactive_file 0\n"
    )
    mount = f"35 31 0:32 / {top} rw,relatime - cgroup cgroup rw,memory"
    found = limit(proc(tmp_path, "3:cpu:/\n4:memory:/mine", mount))
    assert found == Limit(5_000_000, "cgroup /mine", top / "mine")
    assert in_use(found) == 3_000_000


def test_in_a_container_the_mount_begins_at_its_own_group(tmp_path: Path) -> None:
    top = tmp_path / "fs"
    top.mkdir()
    (top / "memory.limit_in_bytes").write_text("7000000\n")
    mount = f"35 31 0:32 /docker/abc {top} rw,relatime - cgroup cgroup rw,memory"
    found = limit(proc(tmp_path, "4:memory:/docker/abc", mount))
    assert (found.bytes, found.source) == (7_000_000, "cgroup /")


def test_an_rlimit_counts(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (10**10, before[1]))
    try:
        found = limit(tmp_path)
        assert found == Limit(10**10, "ulimit -d") or found.bytes < 10**10
        assert in_use(Limit(10**10, "ulimit -d")) > 0
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.fixture
def group() -> Iterator[Path]:
    if not os.access(V1 / "cgroup.procs", os.W_OK):
        pytest.skip("needs root and cgroups of version 1 at /sys/fs/cgroup/memory")
    place = V1 / f"eigen2-test-{os.getpid()}"
    place.mkdir()
    yield place
    place.rmdir()


def test_the_limit_of_a_real_cgroup_is_seen_from_inside(group: Path) -> None:
    (group / "memory.limit_in_bytes").write_text(str(400 * 2**20))
    script = (
        "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid()))\n"
        "from eigen2.memory.limits import in_use, limit\n"
        "before = in_use(); kept = bytearray(b'x') * 100_000_000\n"
        "print(limit().bytes, limit().source, in_use() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(group / "cgroup.procs")],
        env=os.environ | {"PYTHONPATH": str(Path(eigen2.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    size, kind, name, grown = done.stdout.split()
    assert (int(size), kind, name) == (400 * 2**20, "cgroup", f"/{group.name}")
    assert 90_000_000 < int(grown) < 120_000_000
