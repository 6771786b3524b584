"""What a run directory may consist of: plain files and directories of its own, under known names.

Whoever is about to use a run directory asks here first. A name that is not known here is nothing to us: it is neither
read nor written.
"""

import os
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from eigen2.store.plain_files import check_kind

LogName: TypeAlias = Literal["metrics", "events", "lineage", "memory"]
LOGS: Final[tuple[str, ...]] = get_args(LogName)
"""Append-only logs that a resume cuts back to its checkpoint. `evaluations` is kept whole: a use of the holdout is
never forgotten."""
PHASE: Final = "phase.json"
"""What a run is doing right now."""
FILM: Final = "film.webp"
"""The champion of a control task at work, for reports."""
FILES: Final = frozenset(
    {
        "config.yaml",
        "run.json",
        "lock",
        "objects.lock",
        "best_agent.safetensors",
        "evaluations.jsonl",
        "report.html",
        FILM,
        PHASE,
        "tracking.json",
    }
    | {f"{name}.jsonl" for name in LOGS}
)
DAMAGED: Final = "damaged"
"""Below it lies what a repair replaced."""
EVALUATIONS: Final = "evaluations"
"""Tables of evaluations, for people to open."""
DIRECTORIES: Final = frozenset(
    {"objects", "checkpoints", "tails", "tensorboard", "wandb", DAMAGED, EVALUATIONS}
)
CONFIG_LIMIT: Final = 256 << 10
FACTS_LIMIT: Final = 4 << 20
"""Bytes of run.json."""
MANIFEST_LIMIT: Final = 64 << 20
EVALUATIONS_LIMIT: Final = 1 << 30
"""Bytes of evaluations.jsonl."""
LINE_LIMIT: Final = 4 << 20
"""Bytes of one record in a log."""


def check_layout(run_dir: Path) -> None:
    """Refuse a run of which a part is a link, a pipe, a device or of the wrong kind; the directory itself may be one."""
    with os.scandir(run_dir) as entries:
        for entry in entries:
            if entry.name in FILES:
                check_kind(Path(entry.path))
            elif entry.name in DIRECTORIES:
                check_kind(Path(entry.path), directory=True)
