"""A replay that lost objects keeps what is left: every transition it still gives is one that was written."""

import json
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eigen2.replay import Field, Replay, Schema
from eigen2.replay.salvage import salvage
from eigen2.replay.snapshot import manifest_segments
from eigen2.store.memory import MemoryObjects

ENDS = (Field("reward"), Field("terminated", (), "bool"), Field("truncated", (), "bool"))
SMALL = Schema((Field("obs", (3,)),), ENDS)
LARGE = Schema((Field("window", (256, 33), "float64"), Field("wide", (70, 1000), "uint8")), ENDS)


def written(
    rng: np.random.Generator, schema: Schema, day: np.ndarray, time: int, end: float, before: int = 0
) -> Any:
    """Steps of some streams over a fixed world; each reward is unique, `before` of them were written already."""
    table = np.random.default_rng(0).normal(size=(500, 33))
    images = np.random.default_rng(1).integers(0, 9, (12, 70, 1000), np.uint8)

    def see(day: np.ndarray) -> dict[str, np.ndarray]:
        if schema is SMALL:
            return {"obs": np.stack([day, day * 2, np.arange(len(day))], axis=1).astype(np.float32)}
        return {"window": np.stack([table[d - 256 : d] for d in day]), "wide": images[day % 12]}

    rows, following = [], []
    for step in range(time):
        count = before + step * len(day) + np.arange(len(day))
        row = see(day) | {"reward": (2 * count + rng.random(len(day), np.float32)).astype(np.float32)}
        row["terminated"], row["truncated"] = rng.random((2, len(day))) < end
        day = np.minimum(day + rng.choice([0, 1, 1, 1, 5], len(day)), 499)
        rows.append(row)
        following.append(see(day))
        day = np.where(row["terminated"] | row["truncated"], rng.integers(256, 499, len(day)), day)
    stacked = [
        {name: np.stack([row[name] for row in part]) for name in part[0]} for part in (rows, following)
    ]
    return stacked[0], stacked[1], day


def known(schema: Schema, steps: Any, following: Any) -> dict[float, tuple[bytes, bytes]]:
    names = [field.name for field in schema.observation]
    return {
        float(steps["reward"][t, s]): tuple(
            b"".join(np.ascontiguousarray(part[name][t, s]).tobytes() for name in names)
            for part in (steps, following)
        )  # type: ignore[misc]
        for t, s in np.ndindex(steps["reward"].shape)
    }


def assert_known(replay: Replay, schema: Schema, ever: dict[float, tuple[bytes, bytes]]) -> None:
    names = [field.name for field in schema.observation]
    for number in range(replay.links.first, replay.links.total):
        one = replay.transitions(np.array([number]))
        found = tuple(
            b"".join(part[name].numpy()[0].tobytes() for name in names)
            for part in (one.observation, one.next_observation)
        )
        assert ever[float(one.step["reward"][0])] == found


# A window that is lost lies between two records of a stream that goes on.
@example(3160041379, True, 3, 9, [25], 0.5, 3, None)
@example(192738, True, 3, 8, [1, 1, 21, 25], 0.1, 2, None)
# A window comes again and is left within a batch that is as long as the replay.
@example(3236, True, 2, 8, [1, 1, 1, 25], 0.1, 2, None)
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    large=st.booleans(),
    streams=st.integers(1, 3),
    capacity=st.integers(8, 60),
    times=st.lists(st.integers(1, 25), min_size=1, max_size=4),
    end=st.sampled_from([0.0, 0.1, 0.5]),
    losses=st.integers(1, 3),
    alpha=st.sampled_from([None, 0.5]),
)
def test_what_is_left_was_written_and_life_goes_on(
    seed: int, large: bool, streams: int, capacity: int, times: list[int], end: float, losses: int,
    alpha: float | None,
) -> None:  # fmt: skip
    schema = LARGE if large else SMALL
    rng, day = np.random.default_rng(seed), np.full(streams, 256)
    replay, ever = Replay(schema, capacity, seed=5, alpha=alpha), dict[float, tuple[bytes, bytes]]()
    for time in times:
        steps, following, day = written(rng, schema, day, time, end, len(ever))
        ever |= known(schema, steps, following)
        replay.extend_transitions(steps, following)
    disk = MemoryObjects()
    manifest = json.loads(json.dumps(replay.snapshot().write(disk.put, disk.has)))
    names = sorted(manifest_segments(manifest))
    bad = {names[i] for i in rng.choice(len(names), min(losses, len(names)), replace=False)}
    for name in bad:
        del disk[name]
    saved = salvage(manifest, disk.read, bad, disk.put)
    assert manifest_segments(saved.manifest).keys() <= disk.keys()
    left = Replay.restore(json.loads(json.dumps(saved.manifest)), disk.read)
    assert (len(left), saved.kept + saved.lost) == (saved.kept, len(replay))
    assert_known(left, schema, ever)
    # It takes new steps, is saved and restored as any other.
    for time in (3, 40):
        steps, following, day = written(rng, schema, day, time, end, len(ever))
        ever |= known(schema, steps, following)
        left.extend_transitions(steps, following)
    left.sample(2)
    left = Replay.restore(left.snapshot().write(disk.put, disk.has), disk.read)
    assert_known(left, schema, ever)


def test_a_lost_segment_costs_its_own_transitions_and_one_for_each_stream() -> None:
    streams, steps = 4, 2000
    replay = Replay(SMALL, 10_000, seed=1)
    rng = np.random.default_rng(0)
    taken, following, _ = written(rng, SMALL, np.full(streams, 256), steps, 0.0)
    replay.extend_transitions(taken, following)
    disk = MemoryObjects()
    manifest = replay.snapshot().write(disk.put, disk.has)
    first, rows, name, _ = manifest["parts"]["records"][1]
    saved = salvage(manifest, disk.read, {name}, disk.put)
    assert saved.lost == rows + streams
    unchanged = {entry[2] for entry in manifest["parts"]["records"][2:]}
    assert unchanged <= set(manifest_segments(saved.manifest))
