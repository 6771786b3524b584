"""How streams are written: what is linked, what is cut, what is refused."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from eigen2.errors import ConfigError, DataError
from eigen2.replay import Field, Replay, Schema, schema_from_spaces


def chain(values: list[float], ends: list[str] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """One stream whose observations are `values`; `ends` says t(erminated), u (truncated) or - for each step."""
    steps = len(values) - 1
    marks = ends or ["-"] * steps
    obs = np.repeat(np.array(values, np.float32)[:, None, None], 5, axis=2)
    return {
        "obs": obs[:-1],
        "action": np.zeros((steps, 1, 2), np.float32),
        "reward": np.array(values[:-1], np.float32)[:, None],
        "terminated": np.array([m == "t" for m in marks])[:, None],
        "truncated": np.array([m == "u" for m in marks])[:, None],
    }, {"obs": obs[-1]}


def test_a_stream_goes_on_in_the_next_call_without_a_second_copy(small_schema: Schema) -> None:
    replay = Replay(small_schema, 100, seed=0)
    replay.extend(*chain([1, 2, 3]))
    replay.extend(*chain([3, 4, 5]))
    assert replay.ring.tail == 4
    batch = replay.transitions(np.arange(4), n_step=4, gamma=1.0)
    assert batch.step["reward"].tolist() == [10, 9, 7, 4]
    assert batch.next_observation["obs"][:, 0].tolist() == [5, 5, 5, 5]


def test_a_stream_that_starts_elsewhere_is_cut_where_it_was(small_schema: Schema) -> None:
    replay = Replay(small_schema, 100, seed=0)
    replay.extend(*chain([1, 2, 3]))
    replay.extend(*chain([7, 8]))
    batch = replay.transitions(np.arange(3), n_step=3, gamma=1.0)
    assert batch.step["reward"].tolist() == [3, 2, 7]
    assert batch.next_observation["obs"][:, 0].tolist() == [3, 3, 8]
    assert batch.discount.tolist() == [1, 1, 1]


def test_terminated_stops_the_bootstrap_and_truncated_does_not(small_schema: Schema) -> None:
    replay = Replay(small_schema, 100, seed=0)
    replay.extend(*chain([1, 2, 3], ["-", "t"]))
    replay.extend(*chain([5, 6, 7], ["-", "u"]))
    batch = replay.transitions(np.arange(4), n_step=2, gamma=0.5)
    assert batch.discount.tolist() == [0, 0, 0.25, 0.5]
    assert batch.step["reward"].tolist() == [2, 2, 8, 6]


def test_streams_may_be_written_in_turns(small_schema: Schema) -> None:
    replay = Replay(small_schema, 100, seed=0)
    for start in (1, 3, 5):
        for stream in (0, 7):
            steps, after = chain([start, start + 1, start + 2])
            steps["reward"] += 100 * stream
            replay.extend(steps, after, streams=[stream])
    sequences = replay.sample_sequences(50, 6)
    rewards = sequences.step["reward"].numpy()
    assert set(rewards[0].tolist()) == {1.0, 701.0}
    assert (np.diff(rewards, axis=0) == 1).all()


def test_the_oldest_leave_first(small_schema: Schema) -> None:
    replay = Replay(small_schema, 8, seed=0)
    for start in range(0, 40, 4):
        replay.extend(*chain(list(range(start, start + 5))))
        live = np.arange(replay.links.first, replay.links.total)
        assert replay.transitions(live).step["reward"].tolist() == list(range(max(0, start - 4), start + 4))


def test_episodes_of_one_step_make_the_ring_grow_and_stay_right(small_schema: Schema) -> None:
    replay = Replay(small_schema, 64, seed=0)
    slots = replay.ring.slots
    for start in range(300):
        replay.extend(*chain([start, start + 0.5], ["u"]))
    assert replay.ring.slots > slots
    batch = replay.transitions(np.arange(236, 300))
    assert batch.next_observation["obs"][:, 0].tolist() == [start + 0.5 for start in range(236, 300)]


def test_a_call_larger_than_the_capacity_keeps_the_newest(small_schema: Schema) -> None:
    replay = Replay(small_schema, 10, seed=0)
    replay.extend(*chain(list(range(101))))
    assert replay.transitions(np.arange(90, 100)).step["reward"].tolist() == list(range(90, 100))


def test_new_transitions_have_the_largest_priority(small_schema: Schema) -> None:
    replay = Replay(small_schema, 100, seed=0, alpha=1.0)
    replay.extend(*chain(list(range(11))))
    replay.update_priorities(np.arange(10), np.full(10, 1e-6))
    replay.update_priorities(np.array([3]), np.array([4.0]))
    replay.extend(*chain(list(range(10, 12))))
    batch = replay.sample_prioritised(1000, beta=1.0)
    found, counts = np.unique(batch.index, return_counts=True)
    assert set(found) <= {3, 10, *range(10)}
    assert abs(counts[found == 3][0] - 500) <= 1
    assert abs(counts[found == 10][0] - 500) <= 1
    assert batch.weight is not None
    assert batch.weight.max() == 1


def test_uniform_samples_cover_every_live_transition_evenly(small_schema: Schema) -> None:
    replay = Replay(small_schema, 20, seed=0)
    replay.extend(*chain(list(range(51))))
    counts = np.bincount(replay.sample(40_000).index - 30, minlength=20)
    assert len(counts) == 20
    assert abs(counts - 2000).max() < 250


def test_kinds_of_samples_do_not_disturb_each_other(small_schema: Schema) -> None:
    one, other = Replay(small_schema, 20, seed=0), Replay(small_schema, 20, seed=0)
    for replay in (one, other):
        replay.extend(*chain(list(range(21))))
    one.sample(7)
    one.sample_sequences(7, 3)
    np.testing.assert_array_equal(one.sample(5, n_step=2).index, other.sample(5, n_step=2).index)


def test_schema_comes_from_the_spaces() -> None:
    space = gym.spaces.Dict(
        {"day": gym.spaces.Box(0, 9, (1,), np.int32), "p": gym.spaces.Box(-1, 1, (3, 4), np.float16)}
    )
    schema = schema_from_spaces(space, gym.spaces.Box(-1, 1, (2,)), extra=[Field("contribution", (3,))])
    assert [f.name for f in schema.observation] == ["day", "p"]
    assert schema.step[0] == Field("action", (2,), "float32")
    assert schema.step[-1] == Field("contribution", (3,))
    assert schema_from_spaces(gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(3)).step[0] == Field(
        "action", (), "int64"
    )
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"obs": np.zeros((2, 1, 4), np.float32)}, "shape"),
        ({"reward": np.zeros((2, 1), complex)}, "dtype"),
        ({"surprise": 0}, "exactly the fields"),
        ({"terminated": np.array([[True], [False]])}, "final"),
        ({"terminated": np.zeros(2, bool)}, r"\[time, stream\]"),
    ],
)
def test_wrong_arrays_are_refused_by_name(small_schema: Schema, change: dict[str, Any], words: str) -> None:
    steps, after = chain([1, 2, 3])
    with pytest.raises(ValueError, match=words):
        Replay(small_schema, 10, seed=0).extend(steps | change, after)


def test_what_cannot_be_done_is_said(small_schema: Schema) -> None:
    replay = Replay(small_schema, 10, seed=0)
    with pytest.raises(DataError, match="holds 0 transitions"):
        replay.sample(1)
    replay.extend(*chain([1, 2, 3], ["t", "t"]), final={"obs": np.zeros((1, 5), np.float32)})
    with pytest.raises(DataError, match="2 consecutive"):
        replay.sample_sequences(1, 2)
    with pytest.raises(ConfigError, match="alpha"):
        replay.sample_prioritised(1, beta=1.0)
    with pytest.raises(ConfigError, match="terminated"):
        Schema((Field("obs", (2,)),), (Field("reward"),))
    with pytest.raises(ConfigError, match="unique"):
        Schema((Field("reward"),), small_schema.step)


def test_a_sample_is_overwritten_by_the_next_of_its_size_but_its_clone_is_not(small_schema: Schema) -> None:
    replay = Replay(small_schema, 20, seed=0)
    replay.extend(*chain(list(range(21))))
    first = replay.sample(6)
    kept = first.clone()
    second = replay.sample(6)
    assert first.step["reward"].data_ptr() == second.step["reward"].data_ptr()
    assert kept.step["reward"].tolist() == kept.index.tolist()
    assert second.step["reward"].tolist() == second.index.tolist()


def test_samples_of_ever_new_sizes_keep_memory_bounded(small_schema: Schema) -> None:
    replay = Replay(small_schema, 20, seed=0)
    replay.extend(*chain(list(range(21))))
    for size in range(1, 60):
        assert len(replay.sample(size).index) == size
    assert len(replay.sampler._outputs) == 8
