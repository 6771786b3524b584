"""A manifest: the small JSON file that names everything one checkpoint consists of.

The file carries a SHA-256 of its own body and has exactly one valid spelling, so that every changed byte, even a
harmless-looking space, is found when it is read.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from eigen2.errors import DamagedStateError
from eigen2.store.durable import write_atomically
from eigen2.store.objects import Ref

FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """One checkpoint. `name` is its role (`latest`, `best`, ...) and equals the file's name."""

    name: str
    step: int
    created: str
    """UTC time in ISO 8601; the only field that differs between two runs of the same seed."""
    objects: Mapping[str, Ref]
    """Logical name (`state/...`, `replay/...`) -> object."""
    replay: Mapping[str, Any] | None = None
    """The replay's own manifest; its blobs are the objects called `replay/<blob>`."""
    replay_step: int | None = None
    """The step at which the replay was taken; earlier than `step` when replay saves are thinned out."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    logs: Mapping[str, int] = field(default_factory=dict)
    """Length in bytes of each append-only file at this step; a resume cuts the files back to it."""
    config_hash: str = ""
    data_fingerprint: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of all objects it names; an object named twice counts once."""
        return sum({ref.hash: ref.size for ref in self.objects.values()}.values())


def to_bytes(manifest: Manifest) -> bytes:
    """The one valid spelling of the manifest's file."""
    body = asdict(manifest)
    body["format"] = FORMAT
    body["metrics"] = {name: _number(value) for name, value in manifest.metrics.items()}
    return _spell({"body": body, "sha256": _digest(body)})


def from_bytes(content: bytes, where: Path) -> Manifest:
    """The manifest in `content`, proven; `where` is its file, for the sentence that refuses it."""
    try:
        document = json.loads(content)
        body = document["body"]
        genuine = document["sha256"] == _digest(body) and _spell(document) == content
    except (ValueError, LookupError, TypeError, RecursionError):
        genuine = False
    if not genuine:
        raise DamagedStateError(
            f"{where} is damaged: it is no manifest that matches its own checksum; "
            "restore the file from a copy of the run or resume from another checkpoint"
        )
    if (found := body.pop("format")) != FORMAT:
        raise DamagedStateError(
            f"{where} has format {found}, this version reads format {FORMAT}; use the version that wrote it"
        )
    if body["name"] != where.stem:
        raise DamagedStateError(
            f"{where} is the manifest of '{body['name']}' under another name; rename it to {body['name']}.json"
        )
    if (unknown := set(body) ^ {part.name for part in fields(Manifest)}) != set():
        raise DamagedStateError(f"{where} has other fields than format {FORMAT} has: {sorted(unknown)}")
    body["objects"] = {name: Ref(**ref) for name, ref in body["objects"].items()}
    body["metrics"] = {name: float(value) for name, value in body["metrics"].items()}
    return Manifest(**body)


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Replace the file at `path` atomically and durably."""
    write_atomically(path, to_bytes(manifest))


def read_manifest(path: Path) -> Manifest:
    """The proven manifest at `path`, or a DamagedStateError that names the file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DamagedStateError(f"{path} does not exist; the run has no such checkpoint") from None
    return from_bytes(content, path)


def _number(value: float) -> float | str:
    """JSON has no NaN and no infinities; as words they come back through float()."""
    return float(value) if math.isfinite(value) else repr(float(value))


def _spell(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_spell(body)).hexdigest()
