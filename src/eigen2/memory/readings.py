"""What the kernel and the GPU say about this process: a reading for every phase, which costs microseconds, and details,
which cost milliseconds."""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from eigen2.memory.limits import in_use, limit

STATM = Path("/proc/self/statm")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Reading:
    rss: int
    vms: int
    own: int
    """RSS without what is mapped from files, which the kernel can drop."""


class Meter:
    """Reads this process; the kernel's file stays open."""

    def __init__(self) -> None:
        self._file = open(STATM, "rb", buffering=0) if STATM.exists() else None  # noqa: SIM115
        self._process = psutil.Process()

    @property
    def age(self) -> float:
        """Seconds since this process began."""
        return time.time() - self._process.create_time()

    def read(self) -> Reading:
        if self._file is None:
            info = self._process.memory_info()
            return Reading(int(info.rss), int(info.vms), int(info.rss))
        size, resident, shared = (
            int(word) * PAGE for word in os.pread(self._file.fileno(), 100, 0).split()[:3]
        )
        return Reading(resident, size, resident - shared)

    def details(self) -> dict[str, Any]:
        """USS, what counts against the limit, and the GPU."""
        bound = limit()
        return {
            "uss_bytes": int(self._process.memory_full_info().uss),
            "used_bytes": in_use(bound),
            "limit_bytes": bound.bytes,
            "limit": bound.source,
            **gpu(),
        }

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def gpu() -> dict[str, int]:
    """Bytes of CUDA memory; nothing where torch has not used a GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    return {
        "gpu_allocated_bytes": int(torch.cuda.memory_allocated()),
        "gpu_reserved_bytes": int(torch.cuda.memory_reserved()),
        "gpu_peak_bytes": int(torch.cuda.max_memory_allocated()),
    }
