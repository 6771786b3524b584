"""Saving at any moment, restoring and going on equals never having stopped."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigen2.replay import Field, Replay, Schema
from eigen2.store.memory import MemoryObjects

ENDS = (Field("reward"), Field("terminated", (), "bool"), Field("truncated", (), "bool"))
SCHEMA = Schema((Field("window", (256, 33), "float64"), Field("wide", (70, 1000), "uint8")), ENDS)


def chunk(
    rng: np.random.Generator, time: int, streams: int, end: float, state: dict[str, Any]
) -> tuple[Any, Any]:
    """Windows that slide, stand still or jump over a small table; `wide` repeats now and then."""
    table = state.setdefault("table", np.random.default_rng(0).normal(size=(500, 33)))
    images = state.setdefault("images", np.random.default_rng(1).integers(0, 9, (12, 70, 1000), np.uint8))
    day = state.setdefault("day", np.full(streams, 256))
    rows: list[dict[str, np.ndarray]] = []
    following: list[dict[str, np.ndarray]] = []

    def see(day: np.ndarray) -> dict[str, np.ndarray]:
        return {"window": np.stack([table[d - 256 : d] for d in day]), "wide": images[day % 12]}

    for _ in range(time):
        row = see(day) | {"reward": rng.random(streams, np.float32)}
        row["terminated"], row["truncated"] = rng.random((2, streams)) < end
        day = np.minimum(day + rng.choice([0, 1, 1, 1, 1, 5], streams), 500)
        rows.append(row)
        following.append(see(day))
        day = np.where(row["terminated"] | row["truncated"], rng.integers(256, 500, streams), day)
    state["day"] = day
    before, after = (
        {name: np.stack([row[name] for row in part]) for name in part[0]} for part in (rows, following)
    )
    return before, after


def assert_equal(one: Replay, other: Replay) -> None:
    draws: list[Callable[[Replay], Any]] = [
        lambda r: r.sample(3),
        lambda r: r.sample(3, n_step=3, gamma=0.9),
        lambda r: r.sample_prioritised(3, beta=0.5),
    ]
    for draw in draws:
        left, right = draw(one), draw(other)
        np.testing.assert_array_equal(left.index, right.index)
        assert torch.equal(left.discount, right.discount)
        for group in ("observation", "next_observation", "step"):
            for name, tensor in getattr(left, group).items():
                assert torch.equal(tensor, getattr(right, group)[name])


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    streams=st.integers(1, 3),
    capacity=st.integers(8, 60),
    times=st.lists(st.integers(1, 12), min_size=2, max_size=6),
    end=st.sampled_from([0.0, 0.1, 0.5]),
    compress=st.booleans(),
)
def test_restored_replays_go_on_as_if_never_stopped(
    seed: int, streams: int, capacity: int, times: list[int], end: float, compress: bool
) -> None:
    rng, state = np.random.default_rng(seed), dict[str, Any]()
    replay = Replay(SCHEMA, capacity, seed=5, alpha=0.5, compress=compress)
    stopped = Replay(SCHEMA, capacity, seed=5, alpha=0.5, compress=compress)
    disk = MemoryObjects()
    for time in times:
        steps, following = chunk(rng, time, streams, end, state)
        for one in (replay, stopped):
            one.extend_transitions(steps, following)
        manifest = stopped.snapshot().write(disk.put, disk.has)
        stopped = Replay.restore(json.loads(json.dumps(manifest)), disk.read)
        assert_equal(replay, stopped)
    first, second = (r.snapshot().write(disk.put, disk.has) for r in (replay, stopped))
    assert first["parts"] == second["parts"]
    numbers = np.arange(replay.links.first, replay.links.total)[-streams * times[-1] :]
    newest = replay.transitions(numbers)
    flat = steps["window"].reshape(-1, 256, 33)[-len(numbers) :]
    np.testing.assert_array_equal(newest.observation["window"].numpy(), flat)
    np.testing.assert_array_equal(
        newest.next_observation["wide"].numpy(), following["wide"].reshape(-1, 70, 1000)[-len(numbers) :]
    )
