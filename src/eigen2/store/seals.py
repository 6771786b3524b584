"""Files that carry their own checksum, so that every byte of them is proven wherever they are copied.

A file that changes by itself, apart from the checkpoints, cannot be named in a manifest: a kill, a slow upload or an
evaluation beside the trainer would leave the two at odds. Each kind of file has a place for a SHA-256 of the rest:

    config.yaml                # sha256 <hash>       a comment, the last line
    run.json, a line of a log  {"sha256": <hash>}    a field, of the record without it
    *.safetensors              {"__metadata__": {"sha256": <hash>}}   of the file with zeros in its place

A file that an earlier version wrote has no seal and proves nothing, which is no damage.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from io import FileIO
from typing import Any, BinaryIO

from eigen2.store.durable import PIECE

FIELD = "sha256"
_ZEROS = "0" * 64
_LAST_LINE = re.compile(rb"(?s)(.*\n|)# sha256 ([0-9a-f]{64})\n")
_IN_HEADER = re.compile(rb'"sha256":"([0-9a-f]{64})"')


def sealed_text(text: str) -> bytes:
    """A text in which # begins a comment, with its seal."""
    content = text.encode()
    return content + f"# sha256 {hashlib.sha256(content).hexdigest()}\n".encode()


def text_holds(content: bytes) -> bool | None:
    """Whether a sealed text is as it was written; None when it carries no seal."""
    found = _LAST_LINE.fullmatch(content)
    return None if found is None else hashlib.sha256(found[1]).hexdigest() == found[2].decode()


def sealed_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with its seal; a seal that it carries is replaced."""
    plain = {key: value for key, value in record.items() if key != FIELD}
    return {**plain, FIELD: _digest(plain)}


def record_holds(record: Any) -> bool | None:
    """Whether a sealed record is as it was written; None when it carries no seal."""
    if not isinstance(record, dict) or FIELD not in record:
        return None
    plain = {key: value for key, value in record.items() if key != FIELD}
    return bool(record[FIELD] == _digest(plain))


def json_holds(content: bytes) -> bool | None:
    """The same of a file, whose spelling must be the one that JSON with an indent of two has."""
    try:
        record = json.loads(content)
        known = record_holds(record)
        return known if known is None else known and json_text(record) == content
    except (ValueError, RecursionError):
        return False


def json_text(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, indent=2) + "\n").encode()


def line_holds(line: bytes) -> bool | None:
    """The same of one line of a log, without its line end."""
    try:
        record = json.loads(line)
        known = record_holds(record)
        return known if known is None else known and json.dumps(record).encode() == line
    except (ValueError, RecursionError):
        return False


def sealed_tensors(tensors: Mapping[str, Any]) -> bytes:
    """A safetensors file of torch tensors, with its seal among the metadata."""
    # Imported here: whoever only checks seals does not need torch.
    from eigen2.store.tensors import pack

    content = b"".join(pack(tensors, {FIELD: _ZEROS}))
    at = _place(content)
    assert at is not None
    return content[: at[0]] + hashlib.sha256(content).hexdigest().encode() + content[at[1] :]


def tensors_hold(file: BinaryIO | FileIO) -> bool | None:
    """Whether a sealed safetensors file is as it was written; None when it carries no seal. Never in memory as a whole."""
    first = file.read(PIECE)
    at = _place(first)
    if at is None:
        return None
    blank = hashlib.sha256(first[: at[0]])
    blank.update(_ZEROS.encode())
    blank.update(first[at[1] :])
    while piece := file.read(PIECE):
        blank.update(piece)
    return blank.hexdigest().encode() == first[at[0] : at[1]]


def _place(first: bytes) -> tuple[int, int] | None:
    """Where the seal lies in a safetensors file: in its header, which comes first, and there among the metadata."""
    length = int.from_bytes(first[:8], "little")
    found = _IN_HEADER.search(first, 8, min(8 + length, len(first)))
    return None if found is None else found.span(1)


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()
