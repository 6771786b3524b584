import torch

from eigen2.nets.dense import mlp, parameter_count


def test_weights_come_from_the_stream_and_not_from_the_global_generator() -> None:
    before = torch.get_rng_state()
    first, second = (mlp(3, [16, 8], 2, torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_zero_head_starts_as_the_zero_function() -> None:
    net = mlp(3, [16], 2, torch.Generator().manual_seed(5), last="zero")
    assert torch.equal(net(torch.ones(4, 3)), torch.zeros(4, 2))


def test_parameter_count_is_the_sum_of_weights_biases_and_norms() -> None:
    net = mlp(3, [16], 2, torch.Generator().manual_seed(5))
    assert parameter_count(net) == (3 * 16 + 16) + 2 * 16 + (16 * 2 + 2)
