"""run.json: what was run, where, with what, and how it stands.

command directory git_commit git_dirty     what would make the same run again; with config_diff and packages
started ended updated                      of the first process; when the last one ended
status reason exit_code                    running, done, stopped or failed; why, and what the shell saw
resumes                                    the same about each later process; `after` is how the one before it ended
"""

import os
import platform
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from eigen2.algorithms.contract import Trainer
from eigen2.config import Config, differences, preset_config
from eigen2.errors import ConfigError

PACKAGES = (
    "eigen2", "torch", "numpy", "gymnasium", "pandas", "pyarrow", "safetensors", "hydra-core", "pydantic", "mujoco",
    "stable-baselines3", "tensorboard", "wandb", "trackio",
)  # fmt: skip
MOST_RESUMES = 1000
"""Of a run that is preempted every few minutes, the newest are kept."""
SLURM = ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT")


def start_facts(config: Config, trainer: Trainer, data_fingerprint: str | None) -> dict[str, Any]:
    """For run.json when a run begins."""
    return describe_process() | {"data_fingerprint": data_fingerprint} | _about(config, trainer)


def resume_facts(config: Config, trainer: Trainer, known: Mapping[str, Any], step: int) -> dict[str, Any]:
    """For run.json, which now says `known`, when a run resumes after `step`."""
    process = describe_process()
    packages = known.get("packages")
    before = packages if isinstance(packages, dict) else {}
    process["packages"] = {
        name: version for name, version in process["packages"].items() if version != before.get(name)
    }
    status = known.get("status")
    process |= {"step": step, "after": "killed" if status == "running" else status}
    resumes = known.get("resumes")
    earlier = resumes if isinstance(resumes, list) else []
    return _about(config, trainer) | {"resumes": [*earlier, process][-MOST_RESUMES:]}


def end_facts(status: str, reason: str | None, code: int) -> dict[str, Any]:
    """For run.json when a process is through with a run."""
    return {"status": status, "reason": reason, "exit_code": code, "ended": _now()}


def describe_process() -> dict[str, Any]:
    """Facts about this process and machine."""
    revision = git_revision(Path(__file__).parent)
    return {
        "command": shlex.join(this_command()),
        "directory": _working_directory(),
        "started": _now(),
        "git": revision,
        "git_commit": None if revision is None else revision.removesuffix("-dirty"),
        "git_dirty": None if revision is None else revision.endswith("-dirty"),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "processor": processor(),
        **_gpu(),
        "slurm_job_id": os.environ.get("SLURM_JOB_ID"),
        "slurm": {
            name.removeprefix("SLURM_").lower(): os.environ[name] for name in SLURM if name in os.environ
        },
    }


def _about(config: Config, trainer: Trainer) -> dict[str, Any]:
    return {
        "status": "running",
        "reason": None,
        "exit_code": None,
        "ended": None,
        "alg": config.presets["alg"],
        "env": config.env.label,
        "seed": config.seed,
        "presets": config.presets,
        "config_diff": _config_diff(config),
        "steps": trainer.steps,
        "step_name": trainer.step_name,
        "headline": list(trainer.headline),
        "units": dict(trainer.units),
        "panels": [panel.to_json() for panel in trainer.panels],
    }


def _config_diff(config: Config) -> dict[str, Any] | None:
    """Keys that differ from the presets, each with both values; None when this version has no such presets any more."""
    try:
        changed = differences(preset_config(config.presets), config)
    except ConfigError:
        return None
    return {key: {"preset": before, "now": now} for key, (before, now) in changed.items()}


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


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def processor() -> str:
    """Model of the CPU and the instructions that PyTorch uses on it: where these differ, results are rounded differently."""
    import torch

    return f"{_cpu_model()} ({torch.backends.cpu.get_cpu_capability()})"


def _cpu_model() -> str:
    otherwise = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
            return next(names, otherwise)
    except OSError:
        return otherwise


def _gpu() -> dict[str, Any]:
    import torch

    if not torch.cuda.is_available():
        return {"gpu": None, "gpu_bytes": None, "cuda": None}
    found = torch.cuda.get_device_properties(0)
    return {"gpu": found.name, "gpu_bytes": found.total_memory, "cuda": torch.version.cuda}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
