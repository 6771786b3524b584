"""A manifest: the small JSON file that names everything one checkpoint consists of.

The file carries a SHA-256 of its own body and has exactly one valid spelling, so that every changed byte, even a
harmless-looking space, is found when it is read. Format 1 had `config_hash` and `data_fingerprint` instead of
`identity`; format 2 had no hashes of the logs and did not say what lies beside it. Both are read, and written again as
format 3.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eigen2.errors import DamagedStateError
from eigen2.store.bounded_json import load_bounded
from eigen2.store.layout import MANIFEST_LIMIT, LogName
from eigen2.store.objects import Ref
from eigen2.store.plain_files import read_plain
from eigen2.store.spelling import spelled

FORMAT = 3
Count = Annotated[int, Field(ge=0, lt=2**62)]
ShortText = Annotated[str, Field(max_length=100)]
LongText = Annotated[str, Field(max_length=1000)]
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
    log_hashes: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each of those files up to that length."""
    sealed: tuple[str, ...] = ()
    """Files of the run that carry a checksum of their own from this step on (`store/seals.py`)."""
    beside: tuple[str, ...] = ()
    """Names of the checkpoints that existed when this one was committed, itself included: none of them ever leaves."""
    inexact: tuple[str, ...] = ()
    """Why the state is no longer what an undamaged run would have computed, a sentence for each repair."""
    parity: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of each parity object -> names of the objects it protects (`store/parity.py`)."""

    @property
    def bytes(self) -> int:
        """Bytes of all objects it names; an object named twice counts once."""
        return sum({ref.hash: ref.size for ref in self.objects.values()}.values())

    def below(self, prefix: str) -> dict[str, Ref]:
        """The objects whose logical name begins with `prefix`, by the rest of it."""
        return {n.removeprefix(prefix): ref for n, ref in self.objects.items() if n.startswith(prefix)}


def to_bytes(manifest: Manifest) -> bytes:
    """The one valid spelling of the manifest's file."""
    body = {part.name: getattr(manifest, part.name) for part in fields(Manifest)}
    body["format"] = FORMAT
    body["objects"] = {name: {"hash": ref.hash, "size": ref.size} for name, ref in manifest.objects.items()}
    body["metrics"] = {name: _number(value) for name, value in manifest.metrics.items()}
    return _document(body)


def from_bytes(content: bytes, where: Path) -> Manifest:
    """The manifest in `content`, proven; `where` is its file, for the sentence that refuses it."""
    try:
        document = load_bounded(content)
        body = document["body"]
        genuine = isinstance(body, dict) and _document(body) == content
    except (ValueError, LookupError, TypeError, RecursionError):
        genuine = False
    if not genuine:
        raise DamagedStateError(
            f"{where} is damaged: it is no manifest that matches its own checksum; "
            "restore the file from a copy of the run or resume from another checkpoint"
        )
    found = body.pop("format", None)
    if found not in (1, 2, FORMAT):
        raise DamagedStateError(
            f"{where} has format {repr(found)[:40]}, this version reads formats 1 to {FORMAT}; use the version that wrote it"
        )
    if found == 1:
        if not {"config_hash", "data_fingerprint"} <= body.keys():
            raise DamagedStateError(f"{where} has other fields than format 1 has")
        body["identity"] = {"config_hash": body.pop("config_hash"), "data": body.pop("data_fingerprint")}
    _require_fields(body, where)
    if (name := str(body["name"])[:100]) != where.stem:
        raise DamagedStateError(
            f"{where} is the manifest of '{name}' under another name; rename it to {name}.json"
        )
    try:
        return Manifest(**_typed(body))
    except ValidationError as error:
        raise DamagedStateError(f"{where} is no manifest ({_reason(error)})") from error


def read_manifest(path: Path) -> Manifest:
    """The proven manifest at `path`, or a DamagedStateError that names the file."""
    return from_bytes(read_content(path), path)


def read_content(path: Path) -> bytes:
    try:
        return read_plain(path, MANIFEST_LIMIT)
    except FileNotFoundError:
        raise DamagedStateError(f"{path} does not exist; the run has no such checkpoint") from None


def _require_fields(body: Mapping[str, Any], where: Path) -> None:
    """A field that this version does not know may change the meaning of the others; a missing one takes its default."""
    parts = fields(Manifest)
    needed = {p.name for p in parts if p.default is MISSING and p.default_factory is MISSING}
    if wrong := (set(body) - {part.name for part in parts}) | (needed - set(body)):
        raise DamagedStateError(
            f"{where} has other fields than format {FORMAT} has: {str(sorted(wrong))[:200]}"
        )


class _Checked(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


Hash = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]


class _CheckedRef(_Checked):
    hash: Hash
    size: Count


class _Fields(_Checked):
    """What the fields of a manifest must be. One with a true checksum may still come from a stranger: its names become
    paths, and its sizes are believed."""

    name: ShortText
    step: Count
    created: ShortText
    objects: dict[LongText, _CheckedRef]
    replay: dict[str, Any] | None = None
    replay_step: Count | None = None
    metrics: dict[LongText, Annotated[float, Field(strict=False)]] = {}
    logs: dict[LogName, Count] = {}
    identity: dict[str, Any] = {}
    log_hashes: dict[LogName, Hash] = {}
    sealed: Annotated[list[ShortText], Field(max_length=100)] = []
    beside: Annotated[list[ShortText], Field(max_length=100)] = []
    inexact: Annotated[list[LongText], Field(max_length=1000)] = []
    parity: dict[Hash, list[Hash]] = {}


def _typed(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as this version needs them."""
    found = _Fields.model_validate(body)
    objects = {name: Ref(ref.hash, ref.size) for name, ref in found.objects.items()}
    lists = {name: tuple(getattr(found, name)) for name in ("sealed", "beside", "inexact")}
    parity = {name: tuple(members) for name, members in found.parity.items()}
    known = {name: getattr(found, name) for name in found.model_fields_set}
    return known | {"objects": objects, "parity": parity, **lists}


def _reason(error: ValidationError) -> str:
    """The first thing that is wrong."""
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])[:200]}: {first['msg'][:200]}"


def _number(value: float) -> float | str:
    """JSON has no NaN and no infinities; as words they come back through float()."""
    return float(value) if math.isfinite(value) else repr(float(value))


def _document(body: dict[str, Any]) -> bytes:
    """The file around `body`: a table of it and of the hash of its own spelling."""
    text = spelled(body)
    digest = hashlib.sha256(f"{text}\n".encode()).hexdigest()
    # No string holds a line end as it is, so a line begins where one stands.
    inner = text.replace("\n", "\n ")
    return f'{{\n "body": {inner},\n "sha256": "{digest}"\n}}\n'.encode()
