"""What of a run waits to be uploaded, from files alone; works while another process uploads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eigen2.cloud.pins import pinned_objects
from eigen2.harness.run import Run


@dataclass(frozen=True)
class Waiting:
    url: str
    objects: int
    """Of the batch on its way; some of them may be there already."""
    bytes: int


def waiting(run: Run, config: Any) -> Waiting | None:
    """None for a run whose config names no cloud."""
    section = config.get("cloud") if isinstance(config, Mapping) else None
    url = section.get("url") if isinstance(section, Mapping) else None
    if not isinstance(url, str) or url == "off":
        return None
    objects = pinned_objects(run.path)
    return Waiting(url, len(objects), sum(_size(run, name) for name in objects))


def _size(run: Run, name: str) -> int:
    try:
        return run.checkpoints.objects.path(name).lstat().st_size
    except OSError:
        return 0
