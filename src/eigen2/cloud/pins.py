"""What is queued for upload, as a file beside the run, so that garbage collection spares it, also after a kill.

The file holds the manifests of one batch. It is written before the batch begins and removed when everything the
manifests name is in the bucket, so a batch that a kill cut short is found and completed by the next start.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from eigen2.cloud.names import PINS
from eigen2.errors import DamagedStateError
from eigen2.store.bounded_json import load_bounded
from eigen2.store.durable import sync_directory, write_atomically
from eigen2.store.layout import MANIFEST_LIMIT
from eigen2.store.manifest import from_bytes
from eigen2.store.plain_files import read_plain
from eigen2.store.retention import NAMES

LIMIT = 8 * MANIFEST_LIMIT

_HASH = re.compile("[0-9a-f]{64}")


class Pins:
    """The batch that is on its way from a run directory to one place."""

    def __init__(self, run_dir: Path, url: str) -> None:
        self.url = url
        self.path = run_dir / f"{PINS}{hashlib.sha256(url.encode()).hexdigest()[:12]}.json"

    def write(self, manifests: Mapping[str, bytes]) -> None:
        texts = {name: text.decode() for name, text in manifests.items()}
        write_atomically(self.path, json.dumps({"url": self.url, "manifests": texts}).encode())

    def read(self) -> dict[str, bytes]:
        """The manifests of the batch; none when nothing is queued, or when the file is no such list."""
        try:
            values = load_bounded(read_plain(self.path, LIMIT))
            return {
                str(name): str(text).encode() for name, text in values["manifests"].items() if name in NAMES
            }
        except FileNotFoundError:
            return {}
        except (ValueError, LookupError, TypeError, AttributeError, DamagedStateError):
            return {}

    def remove(self) -> None:
        if self.path.exists():
            self.path.unlink()
            sync_directory(self.path.parent)


def pinned_objects(run_dir: Path) -> set[str]:
    """Hashes of the objects that any queued batch names."""
    found: set[str] = set()
    for path in run_dir.glob(f"{PINS}*.json"):
        try:
            found |= _objects(read_plain(path, LIMIT))
        except FileNotFoundError:
            continue
    return found


def _objects(batch: bytes) -> set[str]:
    """A batch that cannot be read pins everything that looks like a name in it; but in one that can be read not every
    hash names an object: a manifest has one of itself, and of the logs."""
    try:
        texts = load_bounded(batch)["manifests"]
        manifests = [from_bytes(text.encode(), Path(f"{name}.json")) for name, text in texts.items()]
    except (ValueError, LookupError, TypeError, AttributeError, DamagedStateError):
        return set(_HASH.findall(batch.decode("latin-1")))
    return {ref.hash for manifest in manifests for ref in manifest.objects.values()}


def forget_other_places(run_dir: Path, url: str | None) -> None:
    """Drop what was queued for a place that the run no longer goes to; needs the run's lock."""
    kept = None if url is None else Pins(run_dir, url).path
    for path in run_dir.glob(f"{PINS}*.json"):
        if path != kept:
            path.unlink(missing_ok=True)
