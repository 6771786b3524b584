"""run.json: what was run, where, with what, and how it stands."""

import os
import platform
import shlex
import socket
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("eigen2", "torch", "numpy", "gymnasium", "pandas", "safetensors", "mujoco")


def describe_start(command: list[str], data_fingerprint: str | None) -> dict[str, Any]:
    """Facts about this process and machine."""
    return {
        "command": shlex.join(command),
        "started": _now(),
        "status": "running",
        "git": git_revision(Path(__file__).parent),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "gpu": _gpu(),
        "slurm_job_id": os.environ.get("SLURM_JOB_ID"),
        "data_fingerprint": data_fingerprint,
    }


def git_revision(directory: Path) -> str | None:
    """Commit of the source tree, with -dirty when it has changes; None outside a checkout."""
    command = ["git", "-C", str(directory), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None if result.returncode == 0 else None


def this_command() -> list[str]:
    return ["eigen2", *sys.argv[1:]]


def _gpu() -> str | None:
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
