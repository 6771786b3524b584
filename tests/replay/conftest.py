"""Small environments' worth of data, made the same way every time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eigen2.replay import Field, Replay, Schema

Fill = Callable[[Replay, int, int], None]

ENDS = (Field("reward"), Field("terminated", (), "bool"), Field("truncated", (), "bool"))


@pytest.fixture
def small_schema() -> Schema:
    return Schema((Field("obs", (5,)),), (Field("action", (2,)), *ENDS))


@pytest.fixture
def window_schema() -> Schema:
    """Windows of 128 days over 40 numbers: 80 KB in full, float64."""
    return Schema(
        (Field("window", (64, 160), "float64"), Field("cash", (1,))), (Field("action", (2,)), *ENDS)
    )


class Source:
    """Streams that walk over one table of rows; episodes of random length, started anywhere."""

    def __init__(self, schema: Schema, streams: int, seed: int, repeat: bool = True) -> None:
        self.schema, self.streams, self.repeat = schema, streams, repeat
        self.rng = np.random.default_rng(seed)
        self.market = self.rng.normal(size=(600, 160))
        self.day = self.rng.integers(64, 500, streams)

    def observe(self) -> dict[str, np.ndarray]:
        found = {}
        for field in self.schema.observation:
            if field.name != "window":
                found[field.name] = self.rng.normal(size=(self.streams, *field.shape)).astype(field.dtype)
            elif self.repeat:
                found["window"] = np.stack([self.market[day - 64 : day] for day in self.day])
            else:
                found["window"] = self.rng.normal(size=(self.streams, *field.shape))
        return found

    def steps(self, time: int, end: float = 0.03) -> tuple[dict[str, Any], dict[str, Any]]:
        """Steps and next observations ``[time, stream, ...]``; call again to go on."""
        now = getattr(self, "now", None) or self.observe()
        rows: list[dict[str, np.ndarray]] = []
        following: list[dict[str, np.ndarray]] = []
        for _ in range(time):
            row = dict(now) | {
                f.name: self.rng.normal(size=(self.streams, *f.shape)).astype(f.dtype)
                for f in self.schema.step
                if f.dtype != "bool"
            }
            row["terminated"] = self.rng.random(self.streams) < end
            row["truncated"] = self.rng.random(self.streams) < end
            rows.append(row)
            self.day += 1
            after = self.observe()
            following.append(after)
            ended = row["terminated"] | row["truncated"] | (self.day > 590)
            row["truncated"] |= self.day > 590
            self.day = np.where(ended, self.rng.integers(64, 500, self.streams), self.day)
            fresh = self.observe()
            now = {n: np.where(ended.reshape(-1, *[1] * (a.ndim - 1)), fresh[n], a) for n, a in after.items()}
        self.now = now
        return (
            {name: np.stack([row[name] for row in rows]) for name in rows[0]},
            {name: np.stack([row[name] for row in following]) for name in following[0]},
        )


@pytest.fixture
def source() -> type[Source]:
    return Source
