"""The market encoder: features of all symbols -> an embedding per day and symbol.

Weights are shared between symbols; what other symbols do enters through a pooled context in the heads. The encoder
reads a *time axis* of days (see `plan_days`) and gives embeddings for wanted positions on it, by a pointwise layer and
dilated causal convolutions. The embedding of day t depends on days t - history + 1 .. t alone, so all days come from one
pass, and equal what a pass over each window would give.

Symbols are worked on in chunks, and chunks are recomputed in the backward pass, so that memory stays bounded at any
number of symbols.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from eigen2.nets.stacked import Params, agents_in, init_linear, init_norm, linear, norm
from eigen2.nets.tiles import KEPT_CELLS, TILE_CELLS

CHUNK_ROWS = TILE_CELLS
"""Rows (agent x day x symbol) worked on at a time: few enough to stay in the processor's cache."""
KEPT_ROWS = KEPT_CELLS
"""Rows whose layers are all remembered for the backward pass; beyond, chunks are computed again instead."""

Days = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MarketTensors:
    """What encoders read of a market, on the training device.

    inputs `[day, symbol, feature + 1]`: features and, last, the mask; mask `[day, symbol]`; tradable `[tradable]`.
    """

    inputs: Tensor
    mask: Tensor
    tradable: Tensor

    @property
    def channels(self) -> int:
        return self.inputs.shape[-1]

    @property
    def nbytes(self) -> int:
        return self.inputs.nbytes + self.mask.nbytes + self.tradable.nbytes


@dataclass(frozen=True)
class DayPlan:
    """Days laid out on one time axis, each wanted day preceded there by its history.

    rows `[time]` are day indices, -1 for days before the market began; position `[day wanted]` finds each wanted day.
    """

    rows: Days
    position: Days


def plan_days(days: Days, history: int) -> DayPlan:
    """Lay out `days` in runs, each preceded by `history - 1` earlier days; overlapping histories are shared."""
    wanted = np.unique(days)
    if history == 1:
        return DayPlan(wanted, np.searchsorted(wanted, days))
    rows, position = [], []
    offset = 0
    for run in _runs(wanted, history):
        span = np.arange(run[0] - history + 1, run[-1] + 1)
        position.append(offset + run - span[0])
        rows.append(np.maximum(span, -1))
        offset += len(span)
    return DayPlan(np.concatenate(rows), np.concatenate(position)[np.searchsorted(wanted, days)])


def _runs(days: Days, history: int) -> list[Days]:
    """Ascending days cut where their histories do not overlap."""
    return np.split(days, np.flatnonzero(np.diff(days) >= history) + 1)


def gather_inputs(market: MarketTensors, plan: DayPlan) -> Tensor:
    """Inputs of the planned days `[time, symbol, channel]`, zero before the market began."""
    index = torch.as_tensor(plan.rows, device=market.inputs.device)
    inputs = market.inputs[index.clamp(min=0)]
    if plan.rows[0] < 0:
        inputs = inputs * (index >= 0).view(-1, 1, 1)
    return inputs


SPARE_ROWS = 191
"""Rows of no meaning after the last one. A matrix product treats left-over rows by another code path, which may round
differently: without them the last day of a pass could differ, in the last bit, from the same day elsewhere."""


class CausalEncoder:
    """h[t] <- h[t] + W a[t] + V a[t - d] with a = silu(norm(h)), after a pointwise layer.

    The reach d halves from layer to layer: 2**(layers - 1), ..., 2, 1. The far past is read first, so that all later
    layers are computed on little more than the wanted days.
    """

    def __init__(self, channels: int, hidden: int, layers: int) -> None:
        self.channels, self.hidden, self.layers = channels, hidden, layers
        self.history = 2**layers
        """Days an embedding depends on, today included."""

    def init(self, params: Params, agents: int, rng: torch.Generator) -> None:
        init_linear(params, "encoder.in", (agents, self.channels, self.hidden), rng)
        for layer in range(self.layers):
            init_norm(params, f"encoder.{layer}.norm", agents, self.hidden)
            # A nearly transparent block: depth costs nothing at the start.
            init_linear(
                params, f"encoder.{layer}.conv", (agents, 2 * self.hidden, self.hidden), rng, gain=0.1
            )

    def embed(self, params: Params, inputs: Tensor, position: Tensor) -> Tensor:
        """inputs `[time, symbol, channel]`, position `[wanted]` -> `[agent, wanted, symbol, hidden]`.

        Each wanted position has its whole history before it on the time axis.
        """
        wanted, order = np.unique(position.cpu().numpy(), return_inverse=True)
        width = inputs.shape[1] * agents_in(params)
        rows = len(self._needed(wanted)[0]) * width
        if agents_in(params) > 1 and rows > CHUNK_ROWS * agents_in(params) and not is_training(params):
            return torch.cat([self.embed(one, inputs, position) for one in one_by_one(params)])
        groups = [wanted] if rows <= rows_at_once(params) else self._groups(wanted, CHUNK_ROWS // width)
        parts = []
        for days in groups:
            encode = partial(self._pass, params, days=days)
            time = len(self._needed(days)[0])
            parts.append(in_symbol_chunks(encode, inputs, params, time=time, rows=rows))
        embedding = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        if np.array_equal(order, np.arange(len(wanted))):
            return embedding
        return embedding[:, torch.as_tensor(order, device=embedding.device)]

    def embed_window(self, params: Params, inputs: Tensor) -> Tensor:
        """inputs `[history, symbol, channel]` -> the last day's `[agent, 1, symbol, hidden]`; a graph without data."""
        return self._pass(params, inputs, np.array([len(inputs) - 1]))

    def _groups(self, wanted: Days, most: int) -> list[Days]:
        """Runs of wanted days; short ones together, as long as they take no more than `most` days on the time axis."""
        groups: list[Days] = []
        room = 0
        for run in _runs(wanted, max(self.history, 2)):
            length = int(run[-1] - run[0]) + self.history
            if groups and length <= room:
                groups[-1] = np.append(groups[-1], run)
                room -= length
            else:
                groups.append(run)
                room = most - length
        return groups

    def _needed(self, days: Days) -> list[Days]:
        """Days that must be known before each layer, and last the wanted days themselves; all ascending."""
        needed = [days]
        for layer in range(self.layers):
            needed.insert(0, np.union1d(needed[0], needed[0] - 2**layer))
        return needed

    def _pass(self, params: Params, inputs: Tensor, days: Days) -> Tensor:
        """inputs `[time, symbol, channel]`, days `[wanted]` ascending -> `[agent, wanted, symbol, hidden]`."""
        agents, symbols = agents_in(params), inputs.shape[1]
        spare = np.arange(1, 1 + -(-SPARE_ROWS // symbols))
        needed = self._needed(days)
        x = inputs[torch.as_tensor(np.append(needed[0], 0 * spare), device=inputs.device)]
        h = linear(params, "encoder.in", x.reshape(1, -1, self.channels).expand(agents, -1, -1))
        for layer, (known, after) in enumerate(pairwise(needed)):
            a = F.silu(norm(params, f"encoder.{layer}.norm", h))
            now = np.searchsorted(known, after)
            before = np.searchsorted(known, after - 2 ** (self.layers - 1 - layer))
            now, before = np.append(now, now[-1] + spare), np.append(before, before[-1] + spare)
            here, there = params[f"encoder.{layer}.conv.w"].chunk(2, dim=1)
            h = take_days(h, now, symbols) + params[f"encoder.{layer}.conv.b"]
            h = h.baddbmm_(take_days(a, now, symbols), here)
            h = h.baddbmm_(take_days(a, before, symbols), there)
        return h.view(agents, -1, symbols, self.hidden)[:, : len(days)]


def embed_day(params: Params, inputs: Tensor) -> Tensor:
    """What a causal encoder without convolutions makes of a day; inputs `[agent, symbol, channel]`, a day for each agent."""
    return linear(params, "encoder.in", inputs)


def take_days(x: Tensor, days: Days, symbols: int) -> Tensor:
    """Rows of the given days of x `[agent, day x symbol, hidden]`; a view where the days are consecutive."""
    first, count = int(days[0]), len(days)
    if int(days[-1]) - first == count - 1:
        return x[:, first * symbols : (first + count) * symbols]
    agents, _, hidden = x.shape
    blocks = x.view(agents, -1, symbols * hidden)
    return blocks[:, torch.as_tensor(days, device=x.device)].view(agents, -1, hidden)


class _Chunk(Protocol):
    def __call__(self, *, inputs: Tensor) -> Tensor: ...


def one_by_one(params: Params) -> Iterator[Params]:
    for agent in range(agents_in(params)):
        yield {name: value[agent : agent + 1] for name, value in params.items()}


def is_training(params: Params) -> bool:
    return torch.is_grad_enabled() and any(value.requires_grad for value in params.values())


def rows_at_once(params: Params) -> int:
    """Rows that are worked on without cutting them into chunks."""
    return KEPT_ROWS if is_training(params) else CHUNK_ROWS


def in_symbol_chunks(encode: _Chunk, inputs: Tensor, params: Params, *, time: int, rows: int) -> Tensor:
    """`encode` on a few symbols at a time, joined along the symbol axis (2).

    One symbol takes `time` rows of each agent; `rows` is what the caller works on altogether, which decides whether
    it can all be remembered for the backward pass.
    """
    if rows <= rows_at_once(params):
        return encode(inputs=inputs)
    parts = []
    for part in torch.split(inputs, max(1, CHUNK_ROWS // (time * agents_in(params))), dim=1):
        if is_training(params):
            parts.append(checkpoint(lambda part: encode(inputs=part), part, use_reentrant=False))
        else:
            parts.append(encode(inputs=part))
    return torch.cat(parts, dim=2) if len(parts) > 1 else parts[0]
