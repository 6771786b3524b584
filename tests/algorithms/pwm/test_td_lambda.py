import pytest
import torch

from eigen2.algorithms.pwm.critic import ValueEnsemble, td_lambda


def slow_td_lambda(reward, discount, value, trace):
    """The definition: a weighted mean of n-step returns, the last of which takes all the weight that is left."""
    horizon, batch = reward.shape
    targets = torch.zeros_like(reward)
    for b in range(batch):
        for t in range(horizon):
            total = 0.0
            for n in range(1, horizon - t + 1):
                n_step, factor = 0.0, 1.0
                for k in range(t, t + n):
                    n_step += factor * reward[k, b].item()
                    factor *= discount[k, b].item()
                n_step += factor * value[t + n - 1, b].item()
                last = n == horizon - t
                total += (trace ** (n - 1)) * (1.0 if last else 1.0 - trace) * n_step
            targets[t, b] = total
    return targets


@pytest.mark.parametrize("trace", [0.0, 0.5, 0.95, 1.0])
def test_targets_equal_the_slow_reference(trace, stream):
    reward, value = (torch.randn(7, 3, generator=stream, dtype=torch.float64) for _ in range(2))
    discount = 0.99 * (torch.rand(7, 3, generator=stream, dtype=torch.float64) > 0.2)
    torch.testing.assert_close(
        td_lambda(reward, discount, value, trace), slow_td_lambda(reward, discount, value, trace)
    )


def test_nothing_after_a_termination_counts(stream):
    reward, value = (torch.randn(5, 1, generator=stream) for _ in range(2))
    discount = torch.full((5, 1), 0.9)
    discount[2] = 0.0
    before = td_lambda(reward, discount, value, 0.95)
    reward[3:], value[2:] = 100.0, 100.0
    torch.testing.assert_close(td_lambda(reward, discount, value, 0.95)[:3], before[:3])


def test_an_ensemble_is_the_same_as_its_members_alone(stream):
    critic = ValueEnsemble(8, [16, 12], 3, 0.99, "silu", stream)
    with torch.no_grad():
        for parameter in critic.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=stream))
    latent = torch.randn(4, 5, 8, generator=stream)
    together = critic(latent)
    assert together.shape == (3, 4, 5)
    for k in range(3):
        x = latent
        for layer in range(2):
            x = torch.nn.functional.silu(x @ critic.weights[layer][k] + critic.biases[layer][k])
            x = torch.nn.functional.layer_norm(x, x.shape[-1:])
        alone = 100 * (x @ critic.weights[2][k] + critic.biases[2][k]).squeeze(-1)
        torch.testing.assert_close(together[k], alone, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(critic.lowest(latent), together.amin(0))
