"""The peak of a process is the most it has had, also after it was given back."""

import subprocess
import sys

import numpy as np

from eigen2.memory.peak import peak_bytes, resident_bytes

CHILD = "import sys; held = bytearray(150_000_000); held[::4096] = b'x' * len(held[::4096]); print(); sys.stdin.read()"


def test_a_peak_stays_when_the_memory_is_given_back() -> None:
    before = resident_bytes()
    held = np.ones(200_000_000, np.uint8)
    del held
    # The kernel counts in batches of pages: a few hundred kilobytes may be missing.
    assert peak_bytes() >= before + 190_000_000


def test_workers_count_with_what_is_theirs_alone() -> None:
    alone = peak_bytes()
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert peak_bytes() > alone + 140_000_000
        child.communicate()
