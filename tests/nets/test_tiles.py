"""Rows in tiles: the tile decides how much memory is used, and nothing else."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigen2.nets.market import POSITION, head, init_head, project
from eigen2.nets.stacked import init_linear, linear
from eigen2.nets.tiles import Rows, RowTiles, in_row_tiles

CHANNELS = 5


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Market:
    """Some agents, days on which rows may be, and the gradient that reaches their outputs."""

    def __init__(
        self, agents: int, rows: int, symbols: int, hidden: int, outputs: int, seed: int = 0
    ) -> None:
        rng = torch.Generator().manual_seed(seed)
        self.rows, self.symbols, self.hidden = rows, symbols, hidden
        self.tradable = torch.arange(0, symbols, 2) if symbols > 4 else torch.arange(symbols)
        self.params: dict[str, torch.Tensor] = {}
        init_linear(self.params, "encoder.in", (agents, CHANNELS, hidden), rng)
        init_head(self.params, agents, hidden, POSITION, outputs, rng)
        days = max(1, rows // 2)
        self.days = torch.randn(1, days, symbols, CHANNELS, generator=rng)
        self.known = torch.rand(1, days, symbols, generator=rng) < 0.9
        self.day = torch.randint(0, days, (rows,), generator=rng)
        self.own = torch.randn(agents, rows, len(self.tradable), POSITION, generator=rng)
        self.account = torch.randn(1, rows, 5, generator=rng)
        self.outer = torch.randn(agents, rows, len(self.tradable), outputs, generator=rng)
        for value in (*self.params.values(), self.days, self.own):
            value.requires_grad_(True)

    def network(
        self,
        params: dict[str, torch.Tensor],
        day: torch.Tensor,
        known: torch.Tensor,
        own: torch.Tensor,
        account: torch.Tensor,
    ) -> torch.Tensor:
        """Of `[row, ...]`, each with its own weights."""
        embedding = linear(params, "encoder.in", day).unsqueeze(1)
        projected = project(params, embedding, known.unsqueeze(1), self.tradable)
        return head(params, projected, own.unsqueeze(1), account.unsqueeze(1))[0].squeeze(1)

    def in_tiles(self, rows: int, network: Callable[..., torch.Tensor] | None = None) -> torch.Tensor:
        inputs = [Rows(self.days, self.day), Rows(self.known, self.day), Rows(self.own), Rows(self.account)]
        return in_row_tiles(
            network or self.network, self.params, inputs, RowTiles(rows, len(self.tradable) * self.hidden)
        )

    def in_one_piece(self) -> torch.Tensor:
        """Without any tile: all rows of all agents through one set of layers."""
        agents = len(self.own)
        inputs = self.days[:, self.day].expand(agents, -1, -1, -1)
        embedding = linear(self.params, "encoder.in", inputs.reshape(agents, -1, CHANNELS))
        embedding = embedding.view(agents, self.rows, self.symbols, self.hidden)
        projected = project(self.params, embedding, self.known[0, self.day], self.tradable)
        return head(self.params, projected, self.own, self.account.expand(agents, -1, -1))[0]

    def gradients(self, out: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(out, [*self.params.values(), self.days, self.own], self.outer)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 23),
    symbols=st.integers(32, 150),
    hidden=st.sampled_from([4, 8, 20, 32, 40]),
    outputs=st.sampled_from([1, 2]),
    tile=st.integers(1, 24),
)
def test_outputs_and_gradients_are_the_same_bits_for_every_tile(
    rows: int, symbols: int, hidden: int, outputs: int, tile: int
) -> None:
    """For rows as wide as those that are cut, and layers of a multiple of four."""
    market = Market(2, rows, symbols, hidden, outputs)
    whole, cut = market.in_tiles(rows), market.in_tiles(tile)
    assert torch.equal(cut, whole)
    for ours, theirs in zip(market.gradients(cut), market.gradients(whole), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(("symbols", "hidden"), [(9, 8), (101, 32)])
def test_tiles_compute_what_one_piece_does(symbols: int, hidden: int) -> None:
    market = Market(3, 14, symbols, hidden, 2)
    cut, whole = market.in_tiles(4), market.in_one_piece()
    torch.testing.assert_close(cut, whole, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(market.gradients(cut), market.gradients(whole), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_no_gradient_is_computed_for_networks_that_are_only_passed_through() -> None:
    market = Market(2, 6, 10, 8, 1)
    followed = market.gradients(market.in_tiles(4))[-1]
    market.params = {name: value.detach() for name, value in market.params.items()}
    (own,) = torch.autograd.grad(market.in_tiles(4), [market.own], market.outer)
    assert torch.equal(own, followed)


def test_memory_is_bounded_by_the_tile_and_not_by_the_rows() -> None:
    """Counted: rows computed together, and bytes remembered for the backward pass, between tiles and in each of them."""
    symbols, hidden, tile = 50, 32, 3
    most_rows, most_bytes = [], []
    for rows in (6, 60):
        market, kept = Market(2, rows, symbols, hidden, 2), [0]
        seen: list[int] = []

        def network(
            params: dict[str, torch.Tensor],
            *inputs: torch.Tensor,
            market: Market = market,
            seen: list[int] = seen,
            kept: list[int] = kept,
        ) -> torch.Tensor:
            seen.append(len(inputs[0]))
            kept.append(0)
            return market.network(params, *inputs)

        with torch.autograd.graph.saved_tensors_hooks(partial(_count, kept), lambda tensor: tensor):
            out = market.in_tiles(tile, network)
            inputs = [*market.params.values(), market.days, market.known, market.own, market.account]
            assert sum(kept) == sum(value.nbytes for value in inputs)
            kept.clear()
            market.gradients(out)
        most_rows.append(max(seen))
        most_bytes.append(max(kept))
    assert most_rows == [tile, tile]
    assert most_bytes[0] == most_bytes[1] < 30 * tile * symbols * hidden * 4


def _count(kept: list[int], tensor: torch.Tensor) -> torch.Tensor:
    kept[-1] += tensor.nbytes
    return tensor
