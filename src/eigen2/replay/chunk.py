"""One call of `extend`, checked: steps ``[time, stream, ...]`` and the observations that follow them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.replay.schema import Field, Schema

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Chunk:
    streams: npt.NDArray[np.int64]
    """Stream of each column ``[stream]``."""
    steps: dict[str, Array]
    """Observation and step fields ``[time, stream, ...]``."""
    after: dict[str, Array]
    """Observation after the last row ``[stream, ...]``."""
    final: dict[str, Array]
    """Observation with which each episode before the last row ended ``[episode, ...]``, time-major."""
    ended: npt.NDArray[np.bool_]
    """Whether the episode ended with this step ``[time, stream]``."""

    def pieces(self, rows: int) -> list[tuple[int, int]]:
        """Row ranges that end where an episode ends, and are at most `rows` long."""
        cuts: list[tuple[int, int]] = []
        start = 0
        for stop in [*(np.flatnonzero(self.ended[:-1].any(axis=1)) + 1).tolist(), len(self.ended)]:
            cuts += [(first, min(first + rows, stop)) for first in range(start, stop, rows)]
            start = stop
        return cuts


def checked_chunk(
    schema: Schema,
    steps: Mapping[str, Any],
    after: Mapping[str, Any],
    final: Mapping[str, Any] | None,
    streams: Sequence[int] | npt.NDArray[np.integer[Any]] | None,
) -> Chunk:
    """The call's arrays with every shape and dtype verified against the schema."""
    fields = (*schema.observation, *schema.step)
    _same_names("steps", steps, fields)
    lead = np.shape(steps["terminated"])
    if len(lead) != 2 or 0 in lead:
        raise ValueError(f"steps['terminated'] must be [time, stream] and not empty, got shape {lead}")
    arrays = {f.name: _array("steps", steps[f.name], f, lead) for f in fields}
    ids = np.arange(lead[1]) if streams is None else np.asarray(streams, np.int64)
    if streams is not None and (
        ids.shape != lead[1:] or len(np.unique(ids)) != len(ids) or ids.min() < 0 or ids.max() >= 2**31
    ):
        raise ValueError(f"streams must be {lead[1]} different numbers from 0 on, got {ids}")
    ended = arrays["terminated"] | arrays["truncated"]
    _same_names("after", after, schema.observation)
    _same_names("final", final or {f.name: () for f in schema.observation}, schema.observation)
    count = int(np.count_nonzero(ended[:-1]))
    if count and not final:
        raise ValueError(f"{count} episodes end before the last row: give their last observations as `final`")
    return Chunk(
        ids,
        arrays,
        {f.name: _array("after", after[f.name], f, lead[1:]) for f in schema.observation},
        {f.name: _array("final", final[f.name], f, (count,)) for f in schema.observation} if final else {},
        ended,
    )


def _same_names(what: str, given: Mapping[str, Any], fields: Sequence[Field]) -> None:
    expected = {f.name for f in fields}
    if set(given) != expected:
        raise ValueError(f"{what} must have exactly the fields {sorted(expected)}, got {sorted(given)}")


def _array(what: str, value: Any, field: Field, lead: tuple[int, ...]) -> Array:
    array = np.asarray(value)
    if array.shape != (*lead, *field.shape):
        raise ValueError(f"{what}[{field.name!r}] must have shape {(*lead, *field.shape)}, got {array.shape}")
    if not np.can_cast(array.dtype, field.dtype, "same_kind"):
        raise ValueError(
            f"{what}[{field.name!r}] has dtype {array.dtype}, which does not convert to {field.dtype}"
        )
    return array
