"""A manifest: the small JSON file that names everything one checkpoint consists of.

The file carries a SHA-256 of its own body and has exactly one valid spelling, so that every changed byte, even a
harmless-looking space, is found when it is read. Format 1 had `config_hash` and `data_fingerprint` instead of
`identity`; it is read, and written again as format 2.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from eigen2.errors import DamagedStateError
from eigen2.store.objects import Ref

FORMAT = 2
_HASH = re.compile("[0-9a-f]{64}")
_LOG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
OWN_DATA = "data/own"
"""Logical name of the user's own data, where a run keeps it."""


@dataclass(frozen=True)
class Manifest:
    """One checkpoint. `name` is its role (`latest`, `best`, ...) and equals the file's name."""

    name: str
    step: int
    created: str
    """UTC time in ISO 8601; the only field that differs between two runs of the same seed."""
    objects: Mapping[str, Ref]
    """Logical name (`state/...`, `replay/...`, `data/own`) -> object."""
    replay: Mapping[str, Any] | None = None
    """The replay's own manifest; the objects it names are called `replay/<hash>`."""
    replay_step: int | None = None
    """The step at which the replay was taken; earlier than `step` when replay saves are thinned out."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    logs: Mapping[str, int] = field(default_factory=dict)
    """Length in bytes of each append-only file at this step; a resume cuts the files back to it."""
    identity: Mapping[str, Any] = field(default_factory=dict)
    """What the run is, as JSON; a resume compares it, the store does not look into it."""

    @property
    def bytes(self) -> int:
        """Bytes of all objects it names; an object named twice counts once."""
        return sum({ref.hash: ref.size for ref in self.objects.values()}.values())

    def below(self, prefix: str) -> dict[str, Ref]:
        """The objects whose logical name begins with `prefix`, by the rest of it."""
        return {n.removeprefix(prefix): ref for n, ref in self.objects.items() if n.startswith(prefix)}


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
    found = body.pop("format", None)
    if found not in (1, FORMAT):
        raise DamagedStateError(
            f"{where} has format {found}, this version reads formats 1 to {FORMAT}; use the version that wrote it"
        )
    if found == 1:
        if not {"config_hash", "data_fingerprint"} <= body.keys():
            raise DamagedStateError(f"{where} has other fields than format 1 has")
        body["identity"] = {"config_hash": body.pop("config_hash"), "data": body.pop("data_fingerprint")}
    _require_fields(body, where)
    if body["name"] != where.stem:
        raise DamagedStateError(
            f"{where} is the manifest of '{body['name']}' under another name; rename it to {body['name']}.json"
        )
    try:
        return Manifest(**_typed(body))
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise DamagedStateError(f"{where} is no manifest: {error}") from error


def read_manifest(path: Path) -> Manifest:
    """The proven manifest at `path`, or a DamagedStateError that names the file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DamagedStateError(f"{path} does not exist; the run has no such checkpoint") from None
    return from_bytes(content, path)


def _require_fields(body: Mapping[str, Any], where: Path) -> None:
    """A field that this version does not know may change the meaning of the others; a missing one takes its default."""
    parts = fields(Manifest)
    needed = {p.name for p in parts if p.default is MISSING and p.default_factory is MISSING}
    if wrong := (set(body) - {part.name for part in parts}) | (needed - set(body)):
        raise DamagedStateError(f"{where} has other fields than format {FORMAT} has: {sorted(wrong)}")


def _typed(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as this version needs them. A manifest with a true checksum may still come from a stranger: its names
    become paths, and its sizes are believed."""
    typed = dict(body)
    for name in ("step", "replay_step"):
        if not (_is_count(typed.get(name)) or (name == "replay_step" and typed.get(name) is None)):
            raise ValueError(f"{name} is {typed[name]!r}, not a number of steps")
    typed["objects"] = {str(name): _ref(**ref) for name, ref in body["objects"].items()}
    typed["metrics"] = {str(name): float(value) for name, value in body.get("metrics", {}).items()}
    for name, size in dict(body.get("logs", {})).items():
        if not (_LOG.fullmatch(name) and _is_count(size)):
            raise ValueError(f"{name!r} of {size!r} bytes is no log")
    for name in ("replay", "identity"):
        if not isinstance(typed.get(name, {}), dict | None):
            raise ValueError(f"{name} is no table")
    return typed


def _ref(hash: str, size: int) -> Ref:
    if not (isinstance(hash, str) and _HASH.fullmatch(hash) and _is_count(size)):
        raise ValueError(f"{hash!r} of {size!r} bytes is no object")
    return Ref(hash, size)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _number(value: float) -> float | str:
    """JSON has no NaN and no infinities; as words they come back through float()."""
    return float(value) if math.isfinite(value) else repr(float(value))


def _spell(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_spell(body)).hexdigest()
