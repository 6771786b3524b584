"""What a run really took, beside its forecast in run.json."""

import time
from collections.abc import Callable
from typing import Any

import psutil

from eigen2.errors import DamagedStateError
from eigen2.harness.journal import read_log
from eigen2.harness.run import Run
from eigen2.memory.peak import peak_bytes


def actual(run: Run) -> dict[str, Any]:
    """`ram_bytes` is of this process and its workers: after a resume, of the last part of the run."""
    files = (path.stat().st_size for path in run.path.rglob("*") if path.is_file())
    began = psutil.Process().create_time()
    # Steps that an earlier process took, and all that this one did.
    earlier = (record for record in read_log(run.log("memory")) if record.get("time", began) < began)
    seconds = time.time() - began + sum(float(record.get("seconds", 0.0)) for record in earlier)
    return {
        "ram_bytes": peak_bytes(),
        "disk_bytes": sum(files),
        "upload_bytes": 0 if run.uploads is None else run.uploads.due_bytes,
        "seconds": round(seconds, 3),
    }


def note_actual(run: Run, say: Callable[[str], None]) -> None:
    """A disk that refuses it is reported, and stops nothing."""
    try:
        run.note(actual=actual(run))
    except (OSError, DamagedStateError) as error:
        say(f"{run.metadata_file} could not be updated ({error}).")
