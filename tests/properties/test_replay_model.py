"""The replay against a plain list of copied transitions, over random play of several streams."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eigen2.replay import Field, Replay, Schema

SCHEMA = Schema(
    (Field("position", (3,), "float32"), Field("day", (), "int32")),
    (
        Field("action", (2,), "float32"),
        Field("reward"),
        Field("terminated", (), "bool"),
        Field("truncated", (), "bool"),
        Field("contribution", (2,), "float32"),
    ),
    summed=("reward", "contribution"),
)


@dataclass
class Naive:
    """A list of dicts, each with its own copy of both observations; `follows` is the same stream's next index."""

    capacity: int
    items: list[dict[str, Any]] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)

    def add(self, stream: int, item: dict[str, Any], continues: bool) -> None:
        number = len(self.items)
        if stream in self.open and continues:
            self.items[self.open[stream]]["follows"] = number
        self.items.append(item | {"follows": None})
        if item["terminated"] or item["truncated"]:
            self.open.pop(stream, None)
        else:
            self.open[stream] = number

    @property
    def first(self) -> int:
        return max(0, len(self.items) - self.capacity)

    def n_step(
        self, number: int, n: int, gamma: float
    ) -> tuple[dict[str, Any], np.float64, np.ndarray, float]:
        item = self.items[number]
        reward, contribution = np.float64(item["reward"]), item["contribution"].astype(np.float64)
        steps = 1
        while steps < n and item["follows"] is not None:
            item = self.items[item["follows"]]
            reward += gamma**steps * np.float64(item["reward"])
            contribution = contribution + gamma**steps * item["contribution"].astype(np.float64)
            steps += 1
        return item, reward, contribution, 0.0 if item["terminated"] else gamma**steps

    def run(self, number: int, horizon: int) -> list[int] | None:
        path = [number]
        while len(path) < horizon:
            follows = self.items[path[-1]]["follows"]
            if follows is None:
                return None
            path.append(follows)
        return path


@dataclass
class Play:
    """Random streams, fed to both buffers in chunks whose sizes are given."""

    rng: np.random.Generator
    streams: int
    end: float
    restart: float
    observation: np.ndarray = field(init=False)
    serial: int = 0

    def __post_init__(self) -> None:
        self.observation = np.stack([self._fresh() for _ in range(self.streams)])

    def _fresh(self) -> np.ndarray:
        self.serial += 1
        return np.array([self.serial, self.rng.random(), -self.serial], np.float32)

    def chunk(self, time: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
        """Steps, next observations, and whether each first row continues the row before the chunk."""
        shape = (time, self.streams)
        steps = {
            "position": np.empty((*shape, 3), np.float32),
            "day": np.empty(shape, np.int32),
            "action": self.rng.random((*shape, 2), np.float32),
            "reward": self.rng.normal(size=shape).astype(np.float32),
            "contribution": self.rng.normal(size=(*shape, 2)).astype(np.float32),
            "terminated": self.rng.random(shape) < self.end,
            "truncated": self.rng.random(shape) < self.end,
        }
        following = {"position": np.empty((*shape, 3), np.float32), "day": np.empty(shape, np.int32)}
        continues = np.ones(self.streams, bool)
        for t in range(time):
            for s in range(self.streams):
                if t == 0 and self.rng.random() < self.restart:
                    self.observation[s] = self._fresh()
                    continues[s] = False
                steps["position"][t, s] = self.observation[s]
                steps["day"][t, s] = int(self.observation[s][0])
                self.observation[s] = self._fresh()
                following["position"][t, s] = self.observation[s]
                following["day"][t, s] = int(self.observation[s][0])
                if steps["terminated"][t, s] or steps["truncated"][t, s]:
                    self.observation[s] = self._fresh()
        return steps, following, continues


def feed(
    naive: Naive, steps: dict[str, np.ndarray], following: dict[str, np.ndarray], continues: np.ndarray
) -> None:
    for t, s in np.ndindex(*steps["reward"].shape):
        item = {name: array[t, s].copy() for name, array in steps.items()}
        item |= {f"next_{name}": array[t, s].copy() for name, array in following.items()}
        naive.add(s, item, bool(continues[s]) or t > 0)


def play(
    seed: int, streams: int, capacity: int, chunks: list[int], end: float, restart: float = 0.1
) -> tuple[Replay, Naive]:
    replay, naive = Replay(SCHEMA, capacity, seed=3, alpha=0.6), Naive(capacity)
    source = Play(np.random.default_rng(seed), streams, end, restart)
    for time in chunks:
        steps, following, continues = source.chunk(time)
        replay.extend_transitions(steps, following)
        feed(naive, steps, following, continues)
    return replay, naive


worlds = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "streams": st.integers(1, 5),
        "capacity": st.integers(5, 60),
        "chunks": st.lists(st.integers(1, 40), min_size=1, max_size=8),
        "end": st.sampled_from([0.0, 0.02, 0.2, 0.6]),
        "restart": st.sampled_from([0.0, 0.3]),
    }
)


@settings(max_examples=60, deadline=None)
@given(world=worlds)
def test_every_live_transition_equals_the_naive_copy(world: dict[str, Any]) -> None:
    replay, naive = play(**world)
    assert (replay.links.first, replay.links.total) == (naive.first, len(naive.items))
    numbers = np.arange(naive.first, len(naive.items))
    batch = replay.transitions(numbers)
    for i, number in enumerate(numbers):
        item = naive.items[number]
        for name, tensor in batch.step.items():
            np.testing.assert_array_equal(tensor[i].numpy(), item[name])
        for name in ("position", "day"):
            np.testing.assert_array_equal(batch.observation[name][i].numpy(), item[name])
            np.testing.assert_array_equal(batch.next_observation[name][i].numpy(), item[f"next_{name}"])
        assert batch.discount[i] == (0.0 if item["terminated"] else 1.0)


@settings(max_examples=40, deadline=None)
@given(world=worlds, n=st.integers(2, 7), gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_n_step_samples_equal_the_naive_sums(world: dict[str, Any], n: int, gamma: float) -> None:
    replay, naive = play(**world)
    batch = replay.sample(20, n_step=n, gamma=gamma)
    for i, number in enumerate(batch.index):
        last, reward, contribution, discount = naive.n_step(int(number), n, gamma)
        np.testing.assert_allclose(batch.step["reward"][i].numpy(), np.float32(reward), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(batch.step["contribution"][i].numpy(), contribution, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(batch.next_observation["position"][i].numpy(), last["next_position"])
        np.testing.assert_array_equal(batch.step["action"][i].numpy(), naive.items[number]["action"])
        assert batch.discount[i] == np.float32(discount)


@settings(max_examples=40, deadline=None)
@given(world=worlds, horizon=st.integers(1, 6))
def test_sequences_are_runs_of_one_episode(world: dict[str, Any], horizon: int) -> None:
    replay, naive = play(**world)
    starts = [k for k in range(naive.first, len(naive.items)) if naive.run(k, horizon)]
    np.testing.assert_array_equal(replay.links.can_follow(horizon - 1), starts)
    if not starts:
        return
    sample = replay.sample_sequences(16, horizon)
    for i in range(16):
        path = naive.run(int(sample.index[0, i]), horizon)
        assert path is not None
        assert path == sample.index[:, i].tolist()
        for t, number in enumerate(path):
            np.testing.assert_array_equal(sample.observation["day"][t, i].numpy(), naive.items[number]["day"])
            np.testing.assert_array_equal(sample.step["reward"][t, i].numpy(), naive.items[number]["reward"])
        np.testing.assert_array_equal(
            sample.observation["day"][horizon, i].numpy(), naive.items[path[-1]]["next_day"]
        )


@settings(max_examples=30, deadline=None)
@given(world=worlds, cuts=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_batches_do_not_depend_on_how_the_data_was_chunked(world: dict[str, Any], cuts: list[int]) -> None:
    world = world | {"restart": 0.0}
    whole, _ = play(**world)
    pieces = Replay(SCHEMA, world["capacity"], seed=3, alpha=0.6)
    source = Play(np.random.default_rng(world["seed"]), world["streams"], world["end"], 0.0)
    for time in world["chunks"]:
        steps, following, _ = source.chunk(time)
        start = 0
        while start < time:
            size = cuts[start % len(cuts)]
            part = slice(start, start + size)
            pieces.extend_transitions(
                {k: v[part] for k, v in steps.items()}, {k: v[part] for k, v in following.items()}
            )
            start += size
    for _ in range(3):
        one, other = whole.sample(8, n_step=3, gamma=0.9), pieces.sample(8, n_step=3, gamma=0.9)
        np.testing.assert_array_equal(one.index, other.index)
        for name, tensor in (one.next_observation | one.step).items():
            assert (tensor == (other.next_observation | other.step)[name]).all()
        one, other = whole.sample_prioritised(8, beta=0.4), pieces.sample_prioritised(8, beta=0.4)
        np.testing.assert_array_equal(one.index, other.index)
