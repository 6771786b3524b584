"""Networks on many rows, a few of them at a time, so that what they remember fits the cache at any number of symbols.

A row is all symbols of one portfolio on its day; rows do not see each other. `in_row_tiles` works on one agent and a
tile of rows at a time. Nothing but the outputs is kept: the backward pass computes each tile again, and frees it before
the next one.

Results do not depend on the tile. In a tile every row is computed by a network of its own: the agent's weights are
stacked once per row, as those of several agents are elsewhere, so a matrix product is always over the symbols of one
row. Their gradients are therefore known row by row, and are added up row by row. (Layers whose width is no multiple of
four are an exception: matrix products round by where in memory a matrix lies. So the tile is a constant, not a setting.)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eigen2.nets.stacked import Params, agents_in, flatten, unflatten

TILE_CELLS = 1 << 14
"""Cells (row x symbol) worked on at a time. With 32 numbers in each, one layer takes 2 MB."""
KEPT_CELLS = 1 << 17
"""Cells (agent x row x symbol) that are worked on in one piece, and remembered for the backward pass."""
LANES = 32
"""Numbers that vector instructions treat together; those left over at the end of an array are rounded differently."""

RowNetwork = Callable[..., Tensor]
"""(params `[row, ...]`, one tensor `[row, ...]` per input) -> `[row, ...]`."""


@dataclass(frozen=True)
class Rows:
    """An input of each row: `values [agent or 1, item, ...]`, where row r reads item r, or item `index[r]`."""

    values: Tensor
    index: Tensor | None = None

    def __len__(self) -> int:
        return self.values.shape[1] if self.index is None else len(self.index)


@dataclass(frozen=True)
class RowTiles:
    """How rows are cut: `rows` at a time, of `numbers` each in a layer of the head."""

    rows: int
    numbers: int

    @classmethod
    def fitting(cls, symbols: int, tradable: int, hidden: int, device: torch.device) -> "RowTiles":
        """A GPU has no use for small tiles: there they only bound memory."""
        cells = TILE_CELLS if device.type == "cpu" else KEPT_CELLS
        return cls(max(1, cells // symbols), tradable * hidden)

    def cut(self, rows: int) -> Iterator[slice]:
        for first in range(0, rows, self.rows):
            yield slice(first, min(first + self.rows, rows))

    def spare(self, rows: int) -> int:
        """Rows of no meaning after the last one, where that would be rounded differently from the others: beside what vector
        instructions leave over, a product of one matrix takes another path than one of several."""
        if self.numbers % LANES:
            return -(-LANES // self.numbers)
        return int(rows == 1)


def in_row_tiles(network: RowNetwork, params: Params, inputs: Sequence[Rows], tiles: RowTiles) -> Tensor:
    """`network` on all rows of all agents -> `[agent, row, ...]`."""
    work = _Work(network, tuple(params), tuple(rows.index for rows in inputs), agents_in(params), tiles)
    out: Tensor = _Tiled.apply(work, *params.values(), *(rows.values for rows in inputs))  # type: ignore[no-untyped-call]
    return out


@dataclass(frozen=True)
class _Tile:
    agent: int
    rows: slice
    spare: int

    @property
    def count(self) -> int:
        return int(self.rows.stop - self.rows.start)

    def of(self, rows: Rows) -> Tensor:
        own = rows.values[min(self.agent, len(rows.values) - 1)].detach()
        chosen = own[self.rows] if rows.index is None else own[rows.index[self.rows]]
        return torch.cat([chosen, *[chosen[-1:]] * self.spare]) if self.spare else chosen

    def weights(self, params: Params) -> Params:
        return {
            name: value[self.agent].detach().expand(self.count + self.spare, *value.shape[1:])
            for name, value in params.items()
        }

    def gradient(self, outer: Tensor) -> Tensor:
        given = outer[self.agent, self.rows]
        return torch.cat([given, given.new_zeros(self.spare, *given.shape[1:])]) if self.spare else given


@dataclass(frozen=True)
class _Work:
    network: RowNetwork
    names: tuple[str, ...]
    indices: tuple[Tensor | None, ...]
    agents: int
    shape: RowTiles

    def split(self, tensors: Sequence[Tensor]) -> tuple[Params, list[Rows]]:
        params = dict(zip(self.names, tensors, strict=False))
        values = tensors[len(self.names) :]
        return params, [Rows(value, index) for value, index in zip(values, self.indices, strict=True)]

    def tiles(self, rows: int) -> Iterator[_Tile]:
        for agent in range(self.agents):
            for chosen in self.shape.cut(rows):
                yield _Tile(agent, chosen, self.shape.spare(chosen.stop - chosen.start))


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: _Work, *tensors: Tensor) -> Tensor:
        ctx.work = work
        ctx.save_for_backward(*tensors)
        params, inputs = work.split(tensors)
        out: Tensor | None = None
        for tile in work.tiles(len(inputs[0])):
            found = work.network(tile.weights(params), *(tile.of(one) for one in inputs))
            if out is None:
                out = found.new_empty(work.agents, len(inputs[0]), *found.shape[1:])
            out[tile.agent, tile.rows] = found[: tile.count]
        assert out is not None
        return out

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        work: _Work = ctx.work
        params, inputs = work.split(ctx.saved_tensors)
        needed = ctx.needs_input_grad[1:]
        of_params = torch.zeros_like(flatten(params)) if any(needed[: len(params)]) else None
        of_inputs = [
            torch.zeros_like(one.values) if yes else None
            for one, yes in zip(inputs, needed[len(params) :], strict=True)
        ]
        for tile in work.tiles(len(inputs[0])):
            _add_gradients(work.network, tile, params, inputs, tile.gradient(outer[0]), of_params, of_inputs)
        if of_params is None:
            return (None, *(None for _ in params), *of_inputs)
        return (None, *unflatten(of_params, params).values(), *of_inputs)


def _add_gradients(
    network: RowNetwork,
    tile: _Tile,
    params: Params,
    inputs: Sequence[Rows],
    outer: Tensor,
    of_params: Tensor | None,
    of_inputs: Sequence[Tensor | None],
) -> None:
    weights, seen = tile.weights(params), [tile.of(one) for one in inputs]
    asked = [] if of_params is None else list(weights.values())
    asked += [value for value, total in zip(seen, of_inputs, strict=True) if total is not None]
    for leaf in asked:
        leaf.requires_grad_(True)
    with torch.enable_grad():
        found = network(weights, *seen)
    gradients = [gradient[: tile.count] for gradient in torch.autograd.grad(found, asked, outer)]
    if of_params is not None:
        own = torch.cat([gradient.reshape(tile.count, -1) for gradient in gradients[: len(params)]], dim=1)
        for row in own:  # a sum over all rows of the tile would depend on how many there are
            of_params[tile.agent] += row
        gradients = gradients[len(params) :]
    followed = ((one, total) for one, total in zip(inputs, of_inputs, strict=True) if total is not None)
    for (one, total), gradient in zip(followed, gradients, strict=True):
        mine = total[min(tile.agent, len(total) - 1)]
        if one.index is None:
            mine[tile.rows] += gradient
        else:
            mine.index_add_(0, one.index[tile.rows], gradient)
