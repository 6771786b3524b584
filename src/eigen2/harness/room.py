"""What this machine, or the cgroup that a process runs in, really has for a run."""

import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from eigen2.config import Config
from eigen2.memory.limits import in_use, limit
from eigen2.memory.peak import resident_bytes
from eigen2.store import disk


@dataclass(frozen=True)
class Room:
    ram: int
    """Bytes that this process may have in all: what is free, and what it has."""
    ram_source: str
    """What sets the limit: the machine, a cgroup or an rlimit."""
    disk: int
    place: str = "there"
    """The directory that holds the runs."""
    gpu: int = 0
    """Memory of the training device; 0 when there is none of its own."""

    def to_json(self) -> dict[str, Any]:
        return {
            "ram_bytes": self.ram,
            "ram_source": self.ram_source,
            "disk_bytes": self.disk,
            "gpu_bytes": self.gpu,
        }


def room_here(config: Config) -> Room:
    found = limit()
    free = max(0, found.bytes - in_use(found)) + resident_bytes()
    root = config.run.root
    return Room(
        min(found.bytes, free), found.source, disk.free_bytes(root), str(root), gpu_bytes(config.device)
    )


@lru_cache(maxsize=4)
def gpu_bytes(device: str) -> int:
    """Memory of the first NVIDIA device if `device` may use it; asked without importing torch."""
    if device not in ("auto", "cuda") or not Path("/dev/nvidia0").exists():
        return 0
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits", "--id=0"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
        return int(answer.split()[0]) << 20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return 0
