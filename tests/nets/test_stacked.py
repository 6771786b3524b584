"""One batched product for the whole population gives what each agent's own layers would give."""

import pytest
import torch
from torch import nn

from eigen2.nets import stacked

AGENTS, ROWS, IN, OUT = 3, 7, 5, 4


@pytest.fixture
def params() -> dict[str, torch.Tensor]:
    params: stacked.Params = {}
    rng = torch.Generator().manual_seed(3)
    stacked.init_linear(params, "layer", (AGENTS, IN, OUT), rng)
    stacked.init_norm(params, "norm", AGENTS, OUT)
    return {name: value + 0.1 * torch.randn(value.shape, generator=rng) for name, value in params.items()}


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(AGENTS, ROWS, IN, generator=torch.Generator().manual_seed(4))


def test_a_stacked_layer_is_every_agents_own_linear_layer(
    params: dict[str, torch.Tensor], x: torch.Tensor
) -> None:
    together = stacked.linear(params, "layer", x)
    for agent in range(AGENTS):
        own = nn.Linear(IN, OUT)
        own.weight.data, own.bias.data = params["layer.w"][agent].T, params["layer.b"][agent, 0]
        torch.testing.assert_close(together[agent], own(x[agent]))


def test_a_stacked_norm_is_every_agents_own_layer_norm(
    params: dict[str, torch.Tensor], x: torch.Tensor
) -> None:
    h = stacked.linear(params, "layer", x)
    together = stacked.norm(params, "norm", h)
    for agent in range(AGENTS):
        own = nn.LayerNorm(OUT)
        own.weight.data, own.bias.data = params["norm.scale"][agent, 0], params["norm.shift"][agent, 0]
        torch.testing.assert_close(together[agent], own(h[agent]))


def test_fresh_weights_have_the_promised_deviation_and_biases_are_zero() -> None:
    params: stacked.Params = {}
    stacked.init_linear(params, "layer", (8, 100, 100), torch.Generator().manual_seed(1), gain=0.5)
    assert float(params["layer.w"].std()) == pytest.approx(0.05, rel=0.02)
    assert not params["layer.b"].any()


def test_agents_do_not_touch_each_others_gradients(params: dict[str, torch.Tensor], x: torch.Tensor) -> None:
    leaves = {name: value.requires_grad_(True) for name, value in params.items()}
    out = stacked.norm(leaves, "norm", stacked.linear(leaves, "layer", x))
    gradients = torch.autograd.grad(out[1].square().sum(), list(leaves.values()))
    for gradient in gradients:
        assert gradient[1].any()
        assert not gradient[[0, 2]].any()


def test_flatten_and_unflatten_are_inverse(params: dict[str, torch.Tensor]) -> None:
    flat = stacked.flatten(params)
    assert flat.shape == (AGENTS, sum(value[0].numel() for value in params.values()))
    back = stacked.unflatten(flat, params)
    assert list(back) == list(params)
    assert all(torch.equal(back[name], params[name]) for name in params)


def test_taken_agents_are_copies_and_put_writes_only_the_named_ones(params: dict[str, torch.Tensor]) -> None:
    before = stacked.take(params, slice(None))
    taken = stacked.take(params, [2, 0])
    for value in taken.values():
        value.zero_()
    assert all(torch.equal(params[name], before[name]) for name in params)
    stacked.put(params, [1], stacked.take(taken, [0]))
    assert not any(value[1].any() for value in params.values())
    assert all(torch.equal(params[name][[0, 2]], before[name][[0, 2]]) for name in params)


def test_concatenated_parts_are_the_whole(params: dict[str, torch.Tensor]) -> None:
    parts = [stacked.take(params, [0]), stacked.take(params, [1, 2])]
    whole = stacked.concatenate(parts)
    assert stacked.agents_in(whole) == AGENTS
    assert all(torch.equal(whole[name], params[name]) for name in params)


def test_norms_are_taken_over_all_tensors_of_an_agent(params: dict[str, torch.Tensor]) -> None:
    expected = stacked.flatten(params).norm(dim=1)
    torch.testing.assert_close(stacked.norms(list(params.values())), expected)


def test_targets_move_by_tau(params: dict[str, torch.Tensor]) -> None:
    target = {name: torch.zeros_like(value) for name, value in params.items()}
    stacked.track(target, params, 0.25)
    for name, value in params.items():
        torch.testing.assert_close(target[name], 0.25 * value)
