"""What the manifest of a stored replay must be before a byte is allocated for it.

A manifest may come from a stranger, who can hash: its numbers become sizes of arrays and positions in them. So types and
bounds are checked first, then whether the parts tile what they are said to hold.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eigen2.errors import DamagedStateError, Eigen2Error
from eigen2.replay.schema import Layout, Schema
from eigen2.replay.segments import SEGMENT_BYTES
from eigen2.replay.size import LINK_BYTES

FORMAT = 1
Stream = Literal["uniform", "n_step", "prioritised", "sequences"]
"""What a replay draws, each from a generator of its own."""
KINDS = ("rows", "tape", "compressed", "compressed_records")
"""Parts of a large field."""
MOST_SLOTS = 2**31 - 1
"""Links hold slots as 32-bit numbers."""

Count = Annotated[int, Field(ge=0, lt=2**62)]
Name = Annotated[str, Field(max_length=100)]
Hex = Annotated[str, Field(pattern=r"\A0x[0-9a-f]{1,32}\z")]
Loose = Field(strict=False)
"""JSON has lists only: a tuple is read from one."""
StoredSegment = Annotated[
    tuple[Count, Count, Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")], Count], Loose
]
"""First row, rows, name of the object, its bytes."""


class _Checked(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Field(_Checked):
    name: Name
    shape: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**31)], ...], Field(strict=False, max_length=16)]
    dtype: Literal[
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
        "float64",
    ]  # fmt: skip
    rows: Annotated[int, Field(ge=1, lt=2**31)] | None = None


class _Schema(_Checked):
    observation: list[_Field]
    step: list[_Field]
    summed: list[Name]


class _Generator(_Checked):
    bit_generator: Literal["PCG64"]
    state: Hex
    inc: Hex
    has_uint32: Annotated[int, Field(ge=0, le=1)]
    uinteger: Annotated[int, Field(ge=0, lt=2**32)]


class _Extents(_Checked):
    count: Count
    open: dict[Annotated[str, Field(pattern=r"\A[0-9]{1,9}\z")], Count]
    alive: list[Annotated[tuple[Count, Count], Loose]]


class _Compressed(_Checked):
    count: Count
    newest: dict[Annotated[str, Field(pattern=r"\A[0-9]{1,9}\z")], Annotated[tuple[Count, Count], Loose]]
    open_first: Count


class _Windows(_Checked):
    windows: Count
    row_wise: bool
    rows: Count
    tape: _Extents
    compressed: _Compressed


class StoredReplay(_Checked):
    """The fields of a manifest, as `Replay.snapshot` writes them."""

    format: Literal[1]
    fields: Annotated[_Schema, Field(alias="schema")]
    capacity: Annotated[int, Field(ge=1, le=MOST_SLOTS)]
    seed: Annotated[int, Field(ge=0, lt=2**128)]
    alpha: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None
    compress: bool
    first: Count
    total: Count
    floor: Count
    tail: Count
    segment_records: Annotated[int, Field(ge=1, le=MOST_SLOTS)]
    streams: Annotated[int, Field(ge=0, le=MOST_SLOTS)]
    max_priority: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    ram_bytes: Count
    random: dict[Stream, _Generator]
    windows: dict[str, _Windows]
    parts: dict[str, list[StoredSegment]]


def checked(manifest: Mapping[str, Any]) -> tuple[StoredReplay, Schema]:
    """The manifest, if it can be one; DamagedStateError says what is wrong with it."""
    if manifest.get("format") != FORMAT:
        raise DamagedStateError(
            f"The replay manifest has format {repr(manifest.get('format'))[:40]}, this version reads {FORMAT}; "
            "use the version that wrote it."
        )
    try:
        stored = StoredReplay.model_validate(manifest)
        schema = Schema.from_json(stored.fields.model_dump())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])[:100]
        raise damaged(f"{place}: {first['msg'][:200]}") from error
    except Eigen2Error as error:
        raise damaged(str(error)[:300]) from error
    if reason := _contradiction(stored, schema):
        raise damaged(reason)
    return stored, schema


def widths(schema: Schema) -> dict[str, int]:
    """Bytes of a row of every part that a replay of this schema can have."""
    record = Layout(schema).nbytes
    found = {"records": record, "pending": record, "priorities": 8}
    for field in schema.large:
        sizes = (field.window[1], 8, 1, 16)
        found |= dict(zip((f"{field.name}.{kind}" for kind in KINDS), sizes, strict=True))
    return found


def unfolded_bytes(manifest: Mapping[str, Any]) -> int:
    """Memory that the contents take when they are read back, known before anything is read."""
    stored, schema = checked(manifest)
    width = widths(schema)
    parts = sum(segment[1] * width[part] for part, segments in stored.parts.items() for segment in segments)
    # A segment of rows is allocated whole, whatever it holds.
    rows = sum(len(stored.parts.get(f"{field.name}.rows", ())) for field in schema.large) * SEGMENT_BYTES
    tree = 0 if stored.alpha is None else 16 << (stored.capacity - 1).bit_length()
    return parts + rows + tree + (stored.total - stored.first) * LINK_BYTES


def _contradiction(stored: StoredReplay, schema: Schema) -> str | None:
    """What cannot be true of a replay, as a sentence."""
    live, known = stored.tail - stored.floor, widths(schema)
    if not (stored.first <= stored.total and stored.total - stored.first <= stored.capacity):
        return f"transitions {stored.first} to {stored.total} do not fit into a capacity of {stored.capacity}"
    if live < 0 or live > MOST_SLOTS // 2 or stored.floor % stored.segment_records:
        return f"records {stored.floor} to {stored.tail} cannot lie in segments of {stored.segment_records}"
    if known["records"] > 2**31 or sum(field.nbytes for field in schema.observation) > 2**40:
        return "a transition of its schema is larger than any memory"
    if stored.random.keys() != set(get_args(Stream)):
        return "it lacks a source of its randomness"
    if stored.windows.keys() != {field.name for field in schema.large}:
        return "it holds other windows than its schema has"
    for part, segments in stored.parts.items():
        if part not in known:
            return f"it has an unknown part {part[:100]!r}"
        if any(rows < 1 for _, rows, _, _ in segments) and part in ("records", *_row_parts(schema)):
            return f"a segment of {part} is empty"
    if _spans(stored.parts.get("records", [])) != _tiles(stored.floor, stored.tail, stored.segment_records):
        return "its segments do not hold the records it names"
    pending = stored.parts.get("pending", [])
    if len(pending) != 1 or not stored.streams <= pending[0][1] <= MOST_SLOTS // 2:
        return f"it does not hold what follows on its {stored.streams} streams"
    priorities = [rows for _, rows, _, _ in stored.parts.get("priorities", [])]
    expected = [] if stored.alpha is None else [min(stored.total, stored.capacity)]
    return None if priorities == expected else "its priorities are not those of its transitions"


def _row_parts(schema: Schema) -> list[str]:
    return [f"{field.name}.rows" for field in schema.large]


def _spans(segments: list[Any]) -> list[tuple[int, int]]:
    return [(first, rows) for first, rows, _, _ in segments]


def _tiles(start: int, stop: int, length: int) -> list[tuple[int, int]]:
    if (stop - start) // length > 10_000_000:
        return [(-1, -1)]
    return [(first, min(length, stop - first)) for first in range(start, stop, length)]


def damaged(reason: str) -> DamagedStateError:
    return DamagedStateError(f"The stored replay cannot be used: {reason}; resume from another checkpoint.")
