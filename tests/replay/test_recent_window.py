"""Half of a draw may come from the newest transitions; old ones are still drawn."""

import numpy as np
import pytest

from eigen2.algorithms.pwm.collector import schema_of
from eigen2.envs.control.catalogue import make_task
from eigen2.replay.buffer import Replay


def numbered(steps: int, capacity: int) -> Replay:
    """A replay of one stream whose rewards are the numbers of their transitions."""
    replay = Replay(schema_of(make_task("pendulum")), capacity, seed=3)
    never = np.zeros((steps, 1), bool)
    replay.extend(
        {
            "obs": np.zeros((steps, 1, 3), np.float32),
            "action": np.zeros((steps, 1, 1), np.float32),
            "reward": np.arange(steps, dtype=np.float32)[:, None],
            "terminated": never,
            "truncated": never,
        },
        {"obs": np.zeros((1, 3), np.float32)},
    )
    return replay


@pytest.mark.parametrize(("newest", "share"), [(0, 0.1), (200, 0.55), (1_000, 0.15), (9_999, 0.1)])
def test_half_of_the_draws_are_of_the_newest(newest: int, share: float) -> None:
    drawn = numbered(3_000, capacity=2_000).sample(40_000, recent_window=newest).step["reward"].numpy()
    assert (drawn.min(), drawn.max()) == (1_000, 2_999)
    np.testing.assert_allclose((drawn >= 2_800).mean(), share, atol=0.01)
    np.testing.assert_allclose((drawn < 1_200).mean(), 0.1 if newest in (0, 9_999) else 0.05, atol=0.01)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_any_number_can_be_drawn_even_of_one_transition(n: int) -> None:
    assert numbered(1, capacity=10).sample(n, recent_window=3).step["reward"].tolist() == [0.0] * n


def test_sequences_are_drawn_by_their_starts() -> None:
    replay = numbered(20_000, capacity=20_000)
    whole = replay.sample_sequences(20_000, 8, recent_window=2_000).step["reward"].numpy()
    assert (np.diff(whole, axis=0) == 1).all()
    np.testing.assert_allclose((whole[0] >= 18_000).mean(), 0.55, atol=0.02)
