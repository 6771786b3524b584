"""Market encoders: features of all symbols -> an embedding per day and symbol.

Weights are shared between symbols; what other symbols do enters through a pooled context in the heads. An encoder
reads a *time axis* of days (see `plan_days`) and gives embeddings for wanted positions on it:

- causal: a pointwise layer and dilated causal convolutions. The embedding of day t depends on days
  t - history + 1 .. t alone, so all days come from one pass, and equal what a pass over each window would give.
- cnn_lstm: the original's kind, a convolution and a two-way LSTM over each day's own window, one window at a time.

Symbols are worked on in chunks, and chunks are recomputed in the backward pass, so that memory stays bounded at any
number of symbols.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from eigen2.nets.stacked import Params, agents_in, init_linear, init_norm, linear, norm

CHUNK_ROWS = 1 << 14
"""Rows (day x symbol) of one agent worked on at a time: few enough to stay in the processor's cache."""


@dataclass(frozen=True)
class MarketTensors:
    """What encoders read of a market, on the training device.

    inputs `[day, symbol, feature + 1]`: features and, last, the mask; mask `[day, symbol]`; tradable `[tradable]`.
    """

    inputs: Tensor
    mask: Tensor
    tradable: Tensor

    @cached_property
    def channels(self) -> int:
        return self.inputs.shape[-1]


@dataclass(frozen=True)
class DayPlan:
    """Days laid out on one time axis, each wanted day preceded there by its history.

    rows `[time]` are day indices, -1 for days before the market began; position `[day wanted]` finds each wanted day.
    """

    rows: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]


def plan_days(days: npt.NDArray[np.int64], history: int) -> DayPlan:
    """Lay out `days` in runs, each preceded by `history - 1` earlier days; overlapping histories are shared."""
    wanted = np.unique(days)
    if history == 1:
        return DayPlan(wanted, np.searchsorted(wanted, days))
    breaks = np.flatnonzero(np.diff(wanted) >= history) + 1
    rows, position = [], np.empty(len(wanted), np.int64)
    offset = 0
    for group in np.split(np.arange(len(wanted)), breaks):
        span = np.arange(wanted[group[0]] - history + 1, wanted[group[-1]] + 1)
        position[group] = offset + wanted[group] - span[0]
        rows.append(np.maximum(span, -1))
        offset += len(span)
    return DayPlan(np.concatenate(rows), position[np.searchsorted(wanted, days)])


def gather_inputs(market: MarketTensors, plan: DayPlan) -> Tensor:
    """Inputs of the planned days `[time, symbol, channel]`, zero before the market began."""
    index = torch.as_tensor(plan.rows, device=market.inputs.device)
    inputs = market.inputs[index.clamp(min=0)]
    if plan.rows[0] < 0:
        inputs = inputs * (index >= 0).view(-1, 1, 1)
    return inputs


FULL_TILES = 192
"""Rows are padded to a multiple of this. A matrix product treats left-over rows by another code path, which may round
differently: without the padding the last day of a pass could differ, in the last bit, from the same day elsewhere."""


class Encoder(Protocol):
    history: int
    """Days an embedding depends on, today included."""

    def init(self, params: Params, agents: int, rng: torch.Generator) -> None: ...

    def embed(self, params: Params, inputs: Tensor, position: Tensor) -> Tensor:
        """inputs `[time, symbol, channel]`, position `[wanted]` -> `[agent, wanted, symbol, hidden]`."""
        ...


class CausalEncoder:
    """h <- h + conv(silu(norm(h))), two taps each, with dilation 1, 2, 4, ... after a pointwise layer."""

    def __init__(self, channels: int, hidden: int, layers: int) -> None:
        self.channels, self.hidden, self.layers = channels, hidden, layers
        self.history = 2**layers

    def init(self, params: Params, agents: int, rng: torch.Generator) -> None:
        init_linear(params, "encoder.in", (agents, self.channels, self.hidden), rng)
        for layer in range(self.layers):
            init_norm(params, f"encoder.{layer}.norm", agents, self.hidden)
            # A nearly transparent block: depth costs nothing at the start.
            init_linear(
                params, f"encoder.{layer}.conv", (agents, 2 * self.hidden, self.hidden), rng, gain=0.1
            )

    def embed(self, params: Params, inputs: Tensor, position: Tensor) -> Tensor:
        if self.layers == 0:
            return self._pass(params, inputs[position])
        chunk = partial(self._wanted, params, position=position)
        return in_symbol_chunks(chunk, inputs, params)

    def _wanted(self, params: Params, inputs: Tensor, position: Tensor) -> Tensor:
        return self._pass(params, inputs)[:, position]

    def _pass(self, params: Params, inputs: Tensor) -> Tensor:
        """`[time, symbol, channel]` -> `[agent, time, symbol, hidden]`."""
        time, symbols, channels = inputs.shape
        agents, rows = agents_in(params), time * symbols
        x = F.pad(inputs.reshape(1, rows, channels), (0, 0, 0, -rows % FULL_TILES))
        h = linear(params, "encoder.in", x.expand(agents, -1, -1))
        for layer in range(self.layers):
            a = F.silu(norm(params, f"encoder.{layer}.norm", h))
            # Time is the slow axis, so "2**layer days ago" is a shift by whole blocks of symbols.
            past = F.pad(a, (0, 0, 2**layer * symbols, 0))[:, : a.shape[1]]
            now, before = params[f"encoder.{layer}.conv.w"].chunk(2, dim=1)
            h = torch.baddbmm(h + params[f"encoder.{layer}.conv.b"], a, now)
            h = torch.baddbmm(h, past, before)
        return h[:, :rows].reshape(agents, time, symbols, self.hidden)


class CnnLstmEncoder:
    """Convolution over three days, LayerNorm, then a two-way LSTM; the mean of its last three days."""

    def __init__(self, channels: int, hidden: int, window: int) -> None:
        if hidden % 2:
            raise ValueError(f"hidden {hidden} must be even: half of it goes each way through time")
        self.channels, self.hidden, self.history = channels, hidden, window
        self.lstm = nn.LSTM(hidden, hidden // 2, batch_first=True, bidirectional=True, device="meta")

    def init(self, params: Params, agents: int, rng: torch.Generator) -> None:
        init_linear(params, "encoder.conv", (agents, 3 * self.channels, self.hidden), rng)
        init_norm(params, "encoder.norm", agents, self.hidden)
        bound = (self.hidden // 2) ** -0.5
        for name, shape in ((name, value.shape) for name, value in self.lstm.named_parameters()):
            params[f"encoder.lstm.{name}"] = (torch.rand(agents, *shape, generator=rng) * 2 - 1) * bound

    def embed(self, params: Params, inputs: Tensor, position: Tensor) -> Tensor:
        days = position.view(-1, 1) + torch.arange(1 - self.history, 1, device=position.device)
        parts = []
        per_chunk = max(1, CHUNK_ROWS // (self.history * inputs.shape[1]))
        for some in days.split(per_chunk):
            parts.append(in_symbol_chunks(partial(self._windows, params, days=some), inputs, params))
        return torch.cat(parts, dim=1)

    def _windows(self, params: Params, inputs: Tensor, days: Tensor) -> Tensor:
        windows = inputs[days].transpose(1, 2)
        wanted, symbols, length, channels = windows.shape
        x = windows.reshape(wanted * symbols, length, channels)
        x = torch.cat([F.pad(x, (0, 0, 2, 0))[:, :length], F.pad(x, (0, 0, 1, 0))[:, :length], x], dim=2)
        agents = agents_in(params)
        h = linear(params, "encoder.conv", x.reshape(1, -1, 3 * channels).expand(agents, -1, -1))
        h = F.relu(norm(params, "encoder.norm", h)).view(agents, wanted * symbols, length, self.hidden)
        outs = []
        for agent in range(agents):
            weights = {
                name: params[f"encoder.lstm.{name}"][agent] for name, _ in self.lstm.named_parameters()
            }
            outs.append(functional_call(self.lstm, weights, (h[agent],))[0][:, -3:].mean(1))
        return torch.stack(outs).view(agents, wanted, symbols, self.hidden)


class _Chunk(Protocol):
    def __call__(self, *, inputs: Tensor) -> Tensor: ...


def in_symbol_chunks(encode: _Chunk, inputs: Tensor, params: Params) -> Tensor:
    """`encode` on a few symbols at a time, joined along the symbol axis (2)."""
    symbols = inputs.shape[1]
    at_once = max(1, CHUNK_ROWS // inputs.shape[0])
    if symbols <= at_once:
        return encode(inputs=inputs)
    training = torch.is_grad_enabled() and any(value.requires_grad for value in params.values())
    parts = []
    for part in inputs.split(at_once, dim=1):
        if training:
            parts.append(checkpoint(lambda part: encode(inputs=part), part, use_reentrant=False))
        else:
            parts.append(encode(inputs=part))
    return torch.cat(parts, dim=2)
