"""What a replay will hold is known before there is one."""

import numpy as np
import pytest

from eigen2.replay import Field, Replay, Schema
from eigen2.replay.schema import STEP_FIELDS, Layout, vector_schema
from eigen2.replay.segments import SEGMENT_BYTES
from eigen2.replay.size import ReplaySize, stored_bytes


def test_a_window_over_rows_costs_a_row_and_not_a_reference() -> None:
    window = Schema((Field("window", (504, 669, 5)),), STEP_FIELDS)
    assert Layout(window).nbytes == 24
    assert 669 * 5 * 4 < stored_bytes(window) < 1.02 * 669 * 5 * 4


def test_a_large_vector_repeats_nothing_and_is_counted_whole() -> None:
    assert stored_bytes(vector_schema(100_000, 2)) > 400_000


def test_sliding_windows_take_what_was_computed() -> None:
    schema = Schema((Field("window", (64, 300)),), STEP_FIELDS)
    steps, replay = 2_000, Replay(schema, 2_000, 0)
    days = np.random.Generator(np.random.PCG64(1)).normal(size=(steps + 64, 300)).astype(np.float32)
    ends = np.zeros((steps, 1), bool)
    windows = np.lib.stride_tricks.sliding_window_view(days, 64, axis=0).swapaxes(1, 2)
    columns = {"window": windows[:steps, None], "reward": np.zeros((steps, 1), np.float32)}
    replay.extend(columns | {"terminated": ends, "truncated": ends}, {"window": windows[steps : steps + 1]})
    computed = ReplaySize(stored_bytes(schema), 2_000).held(steps)
    # Rows are kept in segments, the last of which is not full.
    assert replay.ram_bytes == pytest.approx(computed, rel=0.1, abs=1.1 * SEGMENT_BYTES)


@pytest.mark.parametrize("capacity", [10, 1_000, 100_000])
def test_memory_and_segments_are_those_of_a_real_replay(capacity: int) -> None:
    schema = vector_schema(8, 2)
    replay, size = Replay(schema, capacity, 0), ReplaySize(stored_bytes(schema), capacity)
    assert replay.ring.segment_records == size.segment
    assert replay.ring.slots == size.slots
    written = min(capacity, 5_000)
    columns = {
        "obs": np.ones((written, 1, 8), np.float32), "action": np.ones((written, 1, 2), np.float32),
        "reward": np.ones((written, 1), np.float32), "terminated": np.zeros((written, 1), bool),
        "truncated": np.zeros((written, 1), bool),
    }  # fmt: skip
    replay.extend(columns, {"obs": np.zeros((1, 8), np.float32)})
    assert replay.ram_bytes == pytest.approx(size.held(written), rel=0.02, abs=2 * size.record)
