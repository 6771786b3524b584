"""What a transition is made of, and how its small parts lie in one packed record.

A record is ``[observation fields | step fields | stream]``, padded to eight bytes. Fields over 64 KB, and stacks of rows,
are not in the record: it holds an eight-byte reference to the window kept elsewhere (see `windows`).
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from eigen2.errors import ConfigError

if TYPE_CHECKING:
    import gymnasium as gym

LARGE_BYTES = 64 * 1024
"""An observation field larger than this is kept by reference."""
SMALLEST_STACK = 4 * 1024
SMALLEST_ROW = 64
"""A stack or a row smaller than this costs more to look up than to keep."""

STREAM = "_stream"
"""Hidden field: the stream that wrote the record; ``~stream`` marks an observation that ends an episode."""

ByteArray = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Field:
    """One named array of a transition: its shape without batch axes, and its NumPy dtype name."""

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    rows: int | None = dataclasses.field(default=None, compare=False)
    """It is a stack of this many rows, flattened or not, each of which is kept once. Says how, not what, is stored."""

    def __post_init__(self) -> None:
        dtype = np.dtype(self.dtype)
        if dtype.kind not in "biuf" or dtype.byteorder == ">":
            raise ConfigError(
                f"Replay field {self.name!r} has dtype {dtype}; use a native bool, int or float type."
            )
        object.__setattr__(self, "dtype", dtype.name)
        object.__setattr__(self, "shape", tuple(int(n) for n in self.shape))
        if self.rows is not None and not (
            0 < self.rows <= prod(self.shape) and prod(self.shape) % self.rows == 0
        ):
            raise ConfigError(
                f"Replay field {self.name!r} of shape {self.shape} is no stack of {self.rows} rows."
            )

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def window(self) -> tuple[int, int]:
        """Rows of a field that is kept by reference, and bytes of each."""
        rows = self.rows or self.shape[0]
        return rows, self.nbytes // rows


@dataclass(frozen=True)
class Schema:
    """Observation fields (stored once per step) and step fields (action, reward, terminated, truncated, ...).

    `summed` names the step fields that an n-step sample adds up with the discount.
    """

    observation: tuple[Field, ...]
    step: tuple[Field, ...]
    summed: tuple[str, ...] = ("reward",)

    def __post_init__(self) -> None:
        if not self.observation:
            raise ConfigError("The replay schema needs at least one observation field.")
        names = [field.name for field in (*self.observation, *self.step)]
        if len(set(names)) != len(names) or STREAM in names:
            raise ConfigError(f"Replay field names must be unique and not {STREAM!r}, got {names}.")
        steps = {field.name: field for field in self.step}
        for end in ("terminated", "truncated"):
            if steps.get(end) != Field(end, (), "bool"):
                raise ConfigError(f"The replay schema needs the step field Field({end!r}, (), 'bool').")
        for name in self.summed:
            if name not in steps or np.dtype(steps[name].dtype).kind != "f":
                raise ConfigError(f"Summed replay field {name!r} must be a floating step field.")

    @property
    def large(self) -> tuple[Field, ...]:
        """Observation fields that are kept by reference."""
        return tuple(field for field in self.observation if field.rows or field.nbytes > LARGE_BYTES)

    @property
    def naive_bytes(self) -> int:
        """Bytes of one transition when observation and next observation are both copied into it."""
        return 2 * sum(f.nbytes for f in self.observation) + sum(f.nbytes for f in self.step)

    def to_json(self) -> dict[str, Any]:
        def fields(part: Sequence[Field]) -> list[dict[str, Any]]:
            plain = [{"name": f.name, "shape": list(f.shape), "dtype": f.dtype} for f in part]
            return [{**d, "rows": f.rows} if f.rows else d for d, f in zip(plain, part, strict=True)]

        return {
            "observation": fields(self.observation),
            "step": fields(self.step),
            "summed": list(self.summed),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Schema":
        def fields(part: Sequence[Mapping[str, Any]]) -> tuple[Field, ...]:
            return tuple(Field(f["name"], tuple(f["shape"]), f["dtype"], f.get("rows")) for f in part)

        return cls(fields(data["observation"]), fields(data["step"]), tuple(data["summed"]))

    @property
    def digest(self) -> bytes:
        """Eight bytes that name this schema inside every written segment."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).digest()[:8]


def described(schema: Schema) -> str:
    """The fields that are vectors or larger, e.g. obs[3], action[1]."""
    return ", ".join(f"{f.name}{list(f.shape)}" for f in (*schema.observation, *schema.step) if f.shape)


STEP_FIELDS = (Field("reward"), Field("terminated", (), "bool"), Field("truncated", (), "bool"))


def vector_schema(observations: int, actions: int, *more: Field, rows: int | None = None) -> Schema:
    """One observation vector, one action vector, and what every step has.

    With `rows` the vector is a stack of that many, most of which are in the observation before; each is kept once if
    that is worth its while.
    """
    observation = Field("obs", (observations,), rows=rows)
    if rows and (observation.nbytes < SMALLEST_STACK or observation.window[1] < SMALLEST_ROW):
        observation = Field("obs", (observations,))
    return Schema((observation,), (Field("action", (actions,)), *STEP_FIELDS, *more))


def schema_from_spaces(
    observation_space: "gym.Space[Any]",
    action_space: "gym.Space[Any]",
    extra: Sequence[Field] = (),
    summed: Sequence[str] = ("reward",),
) -> Schema:
    """Schema of a (single, unbatched) environment: a Box becomes ``obs``, a Dict one field per key."""
    # Imported here: whoever only looks into a stored replay does not need Gymnasium.
    from gymnasium.spaces import Dict

    if isinstance(observation_space, Dict):
        observation = tuple(_field(name, space) for name, space in observation_space.spaces.items())
    else:
        observation = (_field("obs", observation_space),)
    return Schema(observation, (_field("action", action_space), *STEP_FIELDS, *extra), tuple(summed))


def _field(name: str, space: "gym.Space[Any]") -> Field:
    if space.shape is None or space.dtype is None:
        raise ConfigError(f"Replay cannot store the space of {name!r} ({space}); flatten it to arrays first.")
    return Field(name, tuple(space.shape), np.dtype(space.dtype).name)


class Layout:
    """Where each packed field lies inside a record of `nbytes`; the first `observation_bytes` are the observation."""

    def __init__(self, schema: Schema) -> None:
        large = {field.name for field in schema.large}
        self.offsets: dict[str, tuple[int, Field]] = {}
        end = 0
        for part in (
            [Field(f.name, (), "int64") if f.name in large else f for f in schema.observation],
            [*schema.step, Field(STREAM, (), "int32")],
        ):
            for field in sorted(part, key=lambda f: -np.dtype(f.dtype).itemsize):
                self.offsets[field.name] = (end, field)
                end += field.nbytes
            end = -(-end // 8) * 8
            if part[-1].name != STREAM:
                self.observation_bytes = end
        self.nbytes = end

    def views(self, records: ByteArray) -> dict[str, npt.NDArray[Any]]:
        """Typed views, one per field, of packed records ``[..., nbytes]``; nothing is copied."""
        if records.shape[-1] != self.nbytes or (records.size and records.strides[-1] != 1):
            raise ValueError(f"packed records must be [..., {self.nbytes}] bytes, got {records.shape}")
        found: dict[str, npt.NDArray[Any]] = {}
        for name, (offset, field) in self.offsets.items():
            column = records[..., offset : offset + field.nbytes]
            found[name] = column.view(field.dtype).reshape(*records.shape[:-1], *field.shape)
        return found
