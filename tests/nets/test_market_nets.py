"""Heads for markets: renaming or reordering symbols reorders the outputs and changes nothing else."""

import numpy as np
import pytest
import torch

from eigen2.nets.encoder import CausalEncoder
from eigen2.nets.market import POSITION, head, init_cash, init_head, project
from eigen2.nets.stacked import linear

AGENTS, DAYS, SYMBOLS, HIDDEN = 2, 3, 9, 16
TRADABLE = torch.tensor([1, 2, 4, 7])


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(5)


@pytest.fixture
def params(rng: torch.Generator) -> dict[str, torch.Tensor]:
    params: dict[str, torch.Tensor] = {}
    init_head(params, AGENTS, HIDDEN, POSITION, 2, rng)
    init_cash(params, AGENTS, HIDDEN, rng)
    return {name: value + 0.2 * torch.randn(value.shape, generator=rng) for name, value in params.items()}


def test_reordering_symbols_reorders_the_outputs_and_leaves_cash_alone(
    params: dict[str, torch.Tensor], rng: torch.Generator
) -> None:
    encoder = CausalEncoder(3, HIDDEN, 2)
    encoder.init(params, AGENTS, rng)
    inputs = torch.randn(8, SYMBOLS, 3, generator=rng)
    mask = torch.rand(DAYS, SYMBOLS, generator=rng) < 0.8
    own = torch.randn(AGENTS, DAYS, len(TRADABLE), POSITION, generator=rng)
    account = torch.randn(AGENTS, DAYS, 5, generator=rng)
    position = torch.tensor([5, 6, 7])

    def outputs(
        order: torch.Tensor, tradable: torch.Tensor, places: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        embedding = encoder.embed(params, inputs[:, order], position)
        projected = project(params, embedding, mask[:, order], tradable)
        out, pooled = head(params, projected, own[:, :, places], account)
        return out, linear(params, "head.cash", pooled)

    out, cash = outputs(torch.arange(SYMBOLS), TRADABLE, torch.arange(4))
    order = torch.as_tensor(np.random.default_rng(1).permutation(SYMBOLS))
    new_home = torch.argsort(order)[TRADABLE]
    tradable, places = torch.sort(new_home)
    moved, moved_cash = outputs(order, tradable, places)
    torch.testing.assert_close(moved, out[:, :, places], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(moved_cash, cash, rtol=1e-4, atol=1e-5)


def test_the_context_is_the_mean_over_known_symbols_only(
    params: dict[str, torch.Tensor], rng: torch.Generator
) -> None:
    embedding = torch.randn(AGENTS, DAYS, SYMBOLS, HIDDEN, generator=rng)
    mask = torch.ones(DAYS, SYMBOLS, dtype=torch.bool)
    mask[:, 0] = mask[1, 5] = False
    before = project(params, embedding, mask, TRADABLE)
    embedding[:, :, 0] += 100.0
    embedding[:, 1, 5] -= 100.0
    assert torch.equal(project(params, embedding, mask, TRADABLE), before)

    mean = embedding[0, 0, mask[0]].mean(0)
    centred = embedding[0, 0, TRADABLE] - mean
    expected = (
        centred @ params["head.centred.w"][0] + params["head.centred.b"][0]
        + mean @ params["head.mean.w"][0] + params["head.mean.b"][0]
    )  # fmt: skip
    torch.testing.assert_close(before[0, 0], expected, rtol=1e-4, atol=1e-4)


def test_a_day_on_which_nothing_is_known_stays_finite(
    params: dict[str, torch.Tensor], rng: torch.Generator
) -> None:
    embedding = torch.randn(AGENTS, DAYS, SYMBOLS, HIDDEN, generator=rng)
    nothing = torch.zeros(DAYS, SYMBOLS, dtype=torch.bool)
    assert torch.isfinite(project(params, embedding, nothing, TRADABLE)).all()


def test_equity_since_the_start_and_time_left_are_not_looked_at(
    params: dict[str, torch.Tensor], rng: torch.Generator
) -> None:
    projected = torch.randn(AGENTS, DAYS, 4, HIDDEN, generator=rng)
    own = torch.randn(AGENTS, DAYS, 4, POSITION, generator=rng)
    account = torch.randn(AGENTS, DAYS, 5, generator=rng)
    before, _ = head(params, projected, own, account)
    later = account.clone()
    later[..., [2, 3]] += 50.0
    assert torch.equal(head(params, projected, own, later)[0], before)
    settled = account.clone()
    settled[..., 4] += 1.0
    assert not torch.equal(head(params, projected, own, settled)[0], before)
