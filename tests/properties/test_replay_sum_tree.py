"""The priority tree against plain sums."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eigen2.replay.sum_tree import SumTree

updates = st.lists(
    st.lists(st.tuples(st.integers(0, 36), st.floats(0.0, 1e6)), min_size=1, max_size=9),
    min_size=1,
    max_size=9,
)


@settings(max_examples=60, deadline=None)
@given(updates=updates)
def test_a_tree_updated_step_by_step_equals_one_built_at_once(updates: list[list[tuple[int, float]]]) -> None:
    tree, plain = SumTree(37), np.zeros(37)
    for update in updates:
        leaf, value = (np.array(column) for column in zip(*update, strict=True))
        tree.set(leaf, value)
        plain[leaf] = value
    again = SumTree(37)
    again.load(plain)
    np.testing.assert_array_equal(tree._nodes, again._nodes)
    np.testing.assert_array_equal(tree.values, plain)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e6)), min_size=1, max_size=40),
    seed=st.integers(0, 99),
)
def test_draws_fall_where_the_cumulative_sum_says_and_never_on_zero(values: list[float], seed: int) -> None:
    plain = np.array(values)
    if plain.sum() == 0:
        return
    tree = SumTree(len(plain))
    tree.load(plain)
    mass = np.append(np.random.default_rng(seed).random(50), np.nextafter(1.0, 0.0)) * tree.total
    leaf = tree.find(mass)
    assert (plain[leaf] > 0).all()
    edges = np.cumsum(plain)
    slack = 1e-9 * edges[-1]
    assert (mass <= edges[leaf] + slack).all()
    assert (mass >= edges[leaf] - plain[leaf] - slack).all()
