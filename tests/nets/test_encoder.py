"""Market encoders: one pass over all days gives exactly what each day's own window gives, and no day sees the next."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from eigen2.nets import encoder as encoders
from eigen2.nets.encoder import CausalEncoder, MarketTensors, gather_inputs, plan_days
from eigen2.nets.stacked import linear, norm, take

DAYS = 90


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def market(symbols: int, channels: int = 6, days: int = DAYS, seed: int = 1) -> MarketTensors:
    rng = torch.Generator().manual_seed(seed)
    inputs = torch.randn(days, symbols, channels, generator=rng)
    return MarketTensors(inputs, torch.ones(days, symbols, dtype=torch.bool), torch.arange(symbols))


def parameters(encoder: CausalEncoder, agents: int = 1, seed: int = 2) -> dict[str, torch.Tensor]:
    """Random everywhere: fresh norms and biases would hide mistakes."""
    params: dict[str, torch.Tensor] = {}
    rng = torch.Generator().manual_seed(seed)
    encoder.init(params, agents, rng)
    return {name: value + 0.2 * torch.randn(value.shape, generator=rng) for name, value in params.items()}


def embed(
    encoder: CausalEncoder, params: dict[str, torch.Tensor], market: MarketTensors, days: Any
) -> torch.Tensor:
    plan = plan_days(np.asarray(days), encoder.history)
    return encoder.embed(params, gather_inputs(market, plan), torch.as_tensor(plan.position))


def window_of(market: MarketTensors, day: int, history: int) -> torch.Tensor:
    """The day's own window, zero before the market began."""
    rows = torch.arange(day - history + 1, day + 1)
    return market.inputs[rows.clamp(min=0)] * (rows >= 0).view(-1, 1, 1)


def plain_convolutions(
    encoder: CausalEncoder, params: dict[str, torch.Tensor], window: torch.Tensor
) -> torch.Tensor:
    """The same network written as zero-padded convolutions over a whole window of one agent; its last day."""
    days, symbols, channels = window.shape
    h = linear(params, "encoder.in", window.reshape(1, -1, channels))
    for layer in range(encoder.layers):
        reach = 2 ** (encoder.layers - 1 - layer)
        a = F.silu(norm(params, f"encoder.{layer}.norm", h))
        past = F.pad(a, (0, 0, reach * symbols, 0))[:, : days * symbols]
        h = (
            h
            + torch.cat([a, past], dim=2) @ params[f"encoder.{layer}.conv.w"]
            + params[f"encoder.{layer}.conv.b"]
        )
    return h.view(days, symbols, -1)[-1]


@pytest.mark.parametrize("agents", [1, 3])
@pytest.mark.parametrize("symbols", [1, 2, 13, 20, 37])
@pytest.mark.parametrize(("hidden", "layers"), [(32, 0), (32, 1), (32, 3), (16, 5), (24, 4), (64, 2)])
def test_all_days_in_one_pass_equal_each_window_exactly(
    hidden: int, layers: int, symbols: int, agents: int
) -> None:
    encoder, data = CausalEncoder(6, hidden, layers), market(symbols)
    params = parameters(encoder, agents)
    together = embed(encoder, params, data, np.arange(DAYS))
    for day in [0, 1, 2, 5, 11, 31, 32, 60, DAYS - 2, DAYS - 1]:
        window = window_of(data, day, encoder.history)
        alone = encoder.embed(params, window, torch.tensor([encoder.history - 1]))
        assert torch.equal(alone[:, 0], together[:, day])


@pytest.mark.parametrize("chunk", [1 << 9, 1 << 11])
@pytest.mark.parametrize("agents", [1, 4])
def test_chunked_passes_equal_each_window_exactly(
    monkeypatch: pytest.MonkeyPatch, chunk: int, agents: int
) -> None:
    monkeypatch.setattr(encoders, "CHUNK_ROWS", chunk)
    encoder, data = CausalEncoder(5, 32, 4), market(41, channels=5)
    params = parameters(encoder, agents)
    days = np.array([3, 4, 5, 30, 31, 50, 80, 89])
    together = embed(encoder, params, data, days)
    for row, day in enumerate(days):
        window = window_of(data, int(day), encoder.history)
        alone = encoder.embed(params, window, torch.tensor([encoder.history - 1]))
        assert torch.equal(alone[:, 0], together[:, row])


def test_a_market_larger_than_one_chunk_equals_each_window_exactly() -> None:
    encoder, data = CausalEncoder(6, 32, 6), market(300)
    assert DAYS * 300 > encoders.CHUNK_ROWS
    params = parameters(encoder)
    together = embed(encoder, params, data, np.arange(DAYS))
    for day in (63, 70, DAYS - 1):
        alone = encoder.embed(params, window_of(data, day, 64), torch.tensor([63]))
        assert torch.equal(alone[:, 0], together[:, day])


@pytest.mark.parametrize("layers", [0, 1, 2, 5])
def test_the_pass_is_the_convolution_it_claims_to_be(layers: int) -> None:
    encoder, data = CausalEncoder(6, 16, layers), market(7)
    params = parameters(encoder)
    together = embed(encoder, params, data, np.arange(DAYS))
    for day in (encoder.history - 1, 40, DAYS - 1):
        # A longer window than the history must change nothing.
        window = window_of(data, day, encoder.history + 9)
        expected = plain_convolutions(encoder, params, window)
        torch.testing.assert_close(together[0, day], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [0, 3])
def test_each_agent_of_a_stack_is_embedded_as_if_alone(layers: int) -> None:
    encoder, data = CausalEncoder(6, 32, layers), market(9)
    params = parameters(encoder, 4)
    together = embed(encoder, params, data, np.arange(20, 50))
    for agent in range(4):
        alone = embed(encoder, take(params, [agent]), data, np.arange(20, 50))
        torch.testing.assert_close(alone[0], together[agent])


@pytest.mark.parametrize("make", [lambda: CausalEncoder(6, 16, 4)])
def test_later_inputs_change_nothing_earlier_and_the_whole_history_counts(
    make: Callable[[], CausalEncoder],
) -> None:
    encoder, data = make(), market(5)
    params = parameters(encoder)
    before = embed(encoder, params, data, np.arange(DAYS))
    changed = data.inputs.clone()
    changed[50] += 1.0
    after = embed(encoder, params, MarketTensors(changed, data.mask, data.tradable), np.arange(DAYS))
    same = (before == after).all(dim=(0, 2, 3))
    assert same[:50].all()
    assert not same[50 : 50 + encoder.history].any()
    assert same[50 + encoder.history :].all()


def test_unsorted_and_repeated_days_come_back_in_the_order_asked() -> None:
    encoder, data = CausalEncoder(6, 16, 3), market(5)
    params = parameters(encoder)
    together = embed(encoder, params, data, np.arange(DAYS))
    days = np.array([70, 3, 3, 42, 70, 41])
    assert torch.equal(embed(encoder, params, data, days), together[:, days])


def test_a_plan_puts_each_days_history_right_before_it() -> None:
    history = 8
    days = np.array([2, 30, 33, 34, 60])
    plan = plan_days(days, history)
    for day, position in zip(days, plan.position, strict=True):
        seen = plan.rows[position - history + 1 : position + 1]
        np.testing.assert_array_equal(seen, np.maximum(np.arange(day - history + 1, day + 1), -1))
    assert len(plan.rows) < len(days) * history, "overlapping histories are shared"


def gradients(
    encoder: CausalEncoder, params: dict[str, torch.Tensor], data: MarketTensors, days: Any
) -> tuple[torch.Tensor, ...]:
    leaves = {name: value.clone().requires_grad_(True) for name, value in params.items()}
    out = embed(encoder, leaves, data, days)
    target = torch.randn(out.shape, generator=torch.Generator().manual_seed(9))
    return torch.autograd.grad((out * target).sum(), list(leaves.values()))


@pytest.mark.parametrize(
    "make",
    [lambda: CausalEncoder(6, 16, 4), lambda: CausalEncoder(6, 16, 0)],
)
@pytest.mark.parametrize("agents", [1, 3])
def test_the_gradient_through_recomputed_chunks_is_that_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], CausalEncoder], agents: int
) -> None:
    encoder, data = make(), market(23)
    params = parameters(encoder, agents)
    days = np.array([20, 21, 22, 23, 50, 51, 80])
    whole = gradients(encoder, params, data, days)
    monkeypatch.setattr(encoders, "CHUNK_ROWS", 200)
    monkeypatch.setattr(encoders, "KEPT_ROWS", 200)
    chunked = gradients(encoder, params, data, days)
    for one, other in zip(whole, chunked, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [lambda: CausalEncoder(6, 16, 3)])
def test_an_encoder_learns_yesterdays_return_of_each_symbol(make: Callable[[], CausalEncoder]) -> None:
    encoder, data = make(), market(6)
    params = {name: value.requires_grad_(True) for name, value in parameters(encoder).items()}
    optimiser = torch.optim.Adam(list(params.values()), lr=0.02)
    days = np.arange(10, 60)
    target = data.inputs[days - 1, :, 0]
    losses = []
    for _ in range(60):
        loss = (embed(encoder, params, data, days)[0, :, :, 0] - target).square().mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.6 * losses[0]
