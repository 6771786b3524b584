"""Large observations: kept once, given back bit for bit, dropped when nobody names them."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from eigen2.errors import ConfigError
from eigen2.replay import Field, Replay, Schema
from eigen2.replay.schema import vector_schema
from eigen2.store.memory import MemoryObjects


def copies(steps: dict[str, Any], following: dict[str, Any]) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(steps["window"][t, s], following["window"][t, s]) for t, s in np.ndindex(*steps["reward"].shape)]


def assert_same(replay: Replay, naive: list[tuple[np.ndarray, np.ndarray]]) -> None:
    numbers = np.arange(replay.links.first, replay.links.total)
    for start in range(0, len(numbers), 16):
        part = numbers[start : start + 16]
        batch = replay.transitions(part)
        for i, number in enumerate(part):
            np.testing.assert_array_equal(batch.observation["window"][i].numpy(), naive[number][0])
            np.testing.assert_array_equal(batch.next_observation["window"][i].numpy(), naive[number][1])


@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.parametrize("chunk", [1, 7])
def test_windows_come_back_bit_for_bit(window_schema: Schema, source: Any, repeat: bool, chunk: int) -> None:
    replay, play, naive = Replay(window_schema, 150, seed=1), source(window_schema, 3, 5, repeat), []
    for _ in range(161 // chunk):
        steps, following = play.steps(chunk)
        naive += copies(steps, following)
        replay.extend_transitions(steps, following)
    assert_same(replay, naive)
    assert replay.windows["window"].row_wise is repeat


@pytest.mark.parametrize("end", [0.0, 0.2])
def test_sequences_and_n_steps_of_windows_equal_the_copies(
    window_schema: Schema, source: Any, end: float
) -> None:
    replay, play, naive = Replay(window_schema, 300, seed=1), source(window_schema, 2, 5), []
    for _ in range(12):
        steps, following = play.steps(9, end)
        naive += copies(steps, following)
        replay.extend_transitions(steps, following)
    for horizon in (1, 3):
        sample = replay.sample_sequences(6, horizon)
        for t, i in np.ndindex(horizon, 6):
            number = sample.index[t, i]
            np.testing.assert_array_equal(sample.observation["window"][t, i].numpy(), naive[number][0])
            np.testing.assert_array_equal(sample.observation["window"][t + 1, i].numpy(), naive[number][1])
        batch = replay.sample(6, n_step=horizon)
        for i, number in enumerate(batch.index):
            last = replay.links.walk(np.array([number]), horizon - 1)[0][-1, 0]
            np.testing.assert_array_equal(batch.observation["window"][i].numpy(), naive[number][0])
            np.testing.assert_array_equal(batch.next_observation["window"][i].numpy(), naive[last][1])


def test_windows_and_next_windows_share_one_extent(window_schema: Schema, source: Any) -> None:
    replay = Replay(window_schema, 300, seed=1)
    replay.extend_transitions(*source(window_schema, 2, 5).steps(30, end=0.0))
    batch = replay.sample(8)
    now, after = batch.observation["window"], batch.next_observation["window"]
    assert after.data_ptr() - now.data_ptr() == 160 * 8
    kept = batch.clone()
    assert kept.observation["window"].is_contiguous()


def test_overlapping_windows_shrink_and_others_are_compressed(window_schema: Schema, source: Any) -> None:
    sizes = {}
    for repeat in (True, False):
        replay, play = Replay(window_schema, 400, seed=1), source(window_schema, 4, 5, repeat)
        for _ in range(10):
            replay.extend_transitions(*play.steps(10))
        sizes[repeat] = replay.info()
    assert sizes[True]["ram_bytes"] < sizes[True]["naive_bytes"] / 40
    assert sizes[False]["ram_bytes"] < sizes[False]["naive_bytes"] / 1.7


def test_rows_nobody_names_are_dropped(window_schema: Schema) -> None:
    replay = Replay(window_schema, 50, seed=1)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4000, 160))
    seen = []
    for day in range(64, 4000 - 8, 8):
        windows = np.stack([table[d - 64 : d] for d in range(day, day + 9)])[:, None]
        steps = {
            "window": windows[:8],
            "cash": np.zeros((8, 1, 1), np.float32),
            "action": np.zeros((8, 1, 2), np.float32),
            "reward": np.zeros((8, 1), np.float32),
            "terminated": np.zeros((8, 1), bool),
            "truncated": np.zeros((8, 1), bool),
        }
        replay.extend(steps, {"window": windows[8], "cash": np.zeros((1, 1), np.float32)})
        seen.append(replay.windows["window"].used_bytes)
    assert replay.windows["window"].rows.count == 4000 - 8
    assert max(seen[-50:]) <= 7 << 19 < table.nbytes
    last = replay.transitions(np.array([replay.links.total - 1]))
    np.testing.assert_array_equal(last.next_observation["window"][0].numpy(), table[-8 - 64 : -8])


def test_a_window_of_thin_rows_is_compressed_at_once() -> None:
    schema = Schema((Field("scan", (40_000,), "uint16"),), Schema.from_json(SMALL).step)
    replay = Replay(schema, 10, seed=0)
    scans = np.arange(3 * 40_000, dtype=np.uint16).reshape(3, 1, 40_000)
    flags = np.zeros((2, 1), bool)
    reward = np.zeros((2, 1), np.float32)
    replay.extend(
        {"scan": scans[:2], "reward": reward, "terminated": flags, "truncated": flags}, {"scan": scans[2]}
    )
    assert replay.ram_bytes < scans.nbytes / 2
    batch = replay.transitions(np.array([0, 1]))
    np.testing.assert_array_equal(batch.next_observation["scan"].numpy(), scans[1:, 0])


def stacks(rows: int, steps: int) -> dict[str, Any]:
    """Vectors ``[steps + 1, 1, rows * 40]``, each a stack of `rows` frames that moves on by one."""
    frames = np.random.default_rng(0).normal(size=(steps + rows, 40)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(frames, rows, axis=0).swapaxes(1, 2)
    ends = np.zeros((steps, 1), bool)
    return {
        "obs": windows.reshape(steps + 1, 1, -1),
        "action": np.ones((steps, 1, 2), np.float32),
        "reward": np.ones((steps, 1), np.float32),
        "terminated": ends,
        "truncated": ends,
    }


def filled(schema: Schema, columns: dict[str, Any]) -> Replay:
    replay = Replay(schema, 2_000, seed=1)
    replay.extend(columns | {"obs": columns["obs"][:-1]}, {"obs": columns["obs"][-1]})
    return replay


def test_a_vector_that_is_a_stack_is_kept_by_rows_and_sampled_as_a_vector() -> None:
    columns = stacks(32, 900)
    kept, plain = (filled(vector_schema(1_280, 2, rows=rows), columns) for rows in (32, None))
    assert kept.schema == plain.schema, "how it is kept is no part of what it is"
    draws: tuple[Callable[[Replay], Any], ...] = (
        lambda r: r.sample(16),
        lambda r: r.sample(16, n_step=3),
        lambda r: r.sample_sequences(8, 4),
    )
    for draw in draws:
        one, other = draw(kept), draw(plain)
        assert torch.equal(one.observation["obs"], other.observation["obs"])
        assert torch.equal(one.step["reward"], other.step["reward"])
    assert kept.ram_bytes < plain.ram_bytes / 2
    assert plain.ram_bytes > kept.info()["naive_bytes"] / 3


def test_a_stack_goes_through_a_snapshot_and_on() -> None:
    columns, disk = stacks(32, 600), MemoryObjects()
    replay = filled(vector_schema(1_280, 2, rows=32), columns)
    manifest = json.loads(json.dumps(replay.snapshot().write(disk.put, disk.has)))
    restored = Replay.restore(manifest, disk.read)
    assert restored.schema.large[0].rows == 32
    for copy in (replay, restored):
        copy.extend(columns | {"obs": columns["obs"][:-1]}, {"obs": columns["obs"][-1]})
    assert torch.equal(replay.sample(64).observation["obs"], restored.sample(64).observation["obs"])
    assert replay.ram_bytes == restored.ram_bytes


@pytest.mark.parametrize(("size", "rows"), [(1_000, 4), (300, 4), (1_280, 128)])
def test_small_stacks_and_thin_rows_are_plain_vectors(size: int, rows: int) -> None:
    schema = vector_schema(size, 2, rows=rows)
    assert schema.large == ()
    assert schema.to_json() == vector_schema(size, 2).to_json()


@pytest.mark.parametrize("rows", [0, 7, 2_000])
def test_rows_that_do_not_divide_a_field_are_refused(rows: int) -> None:
    with pytest.raises(ConfigError, match=f"no stack of {rows} rows"):
        Field("obs", (1_280,), rows=rows)


def test_a_window_of_a_single_row_is_kept() -> None:
    columns = stacks(32, 40)
    replay = filled(Schema((Field("obs", (1_280,), rows=1),), vector_schema(1, 2).step), columns)
    batch = replay.transitions(np.arange(40))
    np.testing.assert_array_equal(batch.next_observation["obs"].numpy(), columns["obs"][1:, 0])


SMALL = {
    "observation": [{"name": "obs", "shape": [1], "dtype": "float32"}],
    "step": [
        {"name": "reward", "shape": [], "dtype": "float32"},
        {"name": "terminated", "shape": [], "dtype": "bool"},
        {"name": "truncated", "shape": [], "dtype": "bool"},
    ],
    "summed": ["reward"],
}
