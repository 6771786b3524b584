"""Arrays are found wherever they are, and memory counts once."""

import gc
from pathlib import Path

import numpy as np
import torch

from eigen2.memory import census
from eigen2.memory.census import BYTES, GRAPHS, NUMPY, TENSORS
from eigen2.memory.holders import graph_bytes, holder

BIG = 8_000_000


class Keeper:
    def __init__(self) -> None:
        self.kept: object = None


def found(keeper: Keeper) -> dict[str, list[int]]:
    """Sizes of the blocks over 50 MB, by who holds them."""
    names: dict[str, list[int]] = {}
    for block in census.take().big():
        names.setdefault(str(holder(block.keeper, block.inside)), []).append(block.bytes)
    assert keeper is not None
    return names


def test_an_array_in_a_dict_that_the_collector_does_not_track_is_found() -> None:
    keeper = Keeper()
    keeper.kept = [{"array": np.ones(BIG)}]
    assert found(keeper) == {"Keeper.kept": [8 * BIG]}


def test_an_array_inside_an_array_of_objects_is_found() -> None:
    keeper = Keeper()
    table = np.empty(3, object)
    table[1] = np.ones(BIG)
    keeper.kept = table
    del table
    assert found(keeper) == {"Keeper.kept": [8 * BIG]}


def test_an_array_behind_an_iterator_is_found() -> None:
    keeper = Keeper()
    keeper.kept = np.ones(BIG).flat
    assert found(keeper) == {"Keeper.kept": [8 * BIG]}


def test_an_array_in_a_closure_is_found() -> None:
    array = np.ones(BIG)

    def double() -> float:
        return float(2 * array[0])

    keeper = Keeper()
    keeper.kept = double
    (name,) = found(keeper)
    assert name.endswith("double.array")


def test_an_array_that_only_a_running_function_has_is_found() -> None:
    def work() -> list[int]:
        mine = np.ones(BIG)
        sizes = [block.bytes for block in census.take("nothing.is.outside").big()]
        assert mine[0] == 1
        return sizes

    assert work() == [8 * BIG]


def test_views_and_tensors_over_the_same_memory_count_once() -> None:
    keeper = Keeper()
    array = np.ones((2, BIG))
    keeper.kept = [array[0], array[:, ::2], torch.from_numpy(array[1]), torch.from_numpy(array)[:, 5:]]
    del array
    assert found(keeper) == {"Keeper.kept": [16 * BIG]}


def test_long_bytes_and_tensors_are_found_by_kind() -> None:
    gc.collect()  # What other tests left must not go between the two.
    before = census.take().kinds()
    kept = [bytes(5_000_000), torch.zeros(1_000_000), np.zeros(1_000_000)]
    after = census.take().kinds()
    zero = {"count": 0, "bytes": 0}
    for kind, size in ((BYTES, 5_000_000), (TENSORS, 4_000_000), (NUMPY, 8_000_000)):
        assert after[kind]["bytes"] - before.get(kind, zero)["bytes"] == size
    assert len(kept) == 3


def test_a_tensor_with_a_graph_keeps_more_than_it_has() -> None:
    weight = torch.randn(100, 100, requires_grad=True)
    loss = torch.tanh(torch.randn(1000, 100) @ weight).sum()
    kinds = census.take().kinds()
    assert kinds[GRAPHS]["count"] >= 1
    # The input, and the result of tanh.
    assert graph_bytes([loss]) == 2 * 4 * 1000 * 100


def test_what_is_mapped_from_a_file_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.ones(BIG).tofile(path)
    mapped = np.memmap(path, np.float64, "r")
    assert census.take().big() == []
    assert mapped[0] == 1
