"""The policy gradient is the true first-order derivative of the imagined return."""

import pytest
import torch

from eigen2.algorithms.pwm.actor import Actor
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.critic import ValueEnsemble
from eigen2.algorithms.pwm.imagination import imagine, returns
from eigen2.algorithms.pwm.world_model import WorldModel
from eigen2.nets.simnorm import simnorm

GAMMA = 0.97


def parts(config: PWMConfig, stream: torch.Generator):
    """Model, policy and critic in float64 with weights far from their zero-initialised heads."""
    model = WorldModel(config.model, 3, 2, stream).double()
    policy = Actor(config.actor, config.model.latent, 2, "silu", stream).double()
    critic = ValueEnsemble(config.model.latent, [12], 3, GAMMA, "silu", stream).double()
    with torch.no_grad():
        for module in (model, policy, critic):
            for parameter in module.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=stream, dtype=torch.float64))
    start = simnorm(torch.randn(5, config.model.latent, generator=stream, dtype=torch.float64))
    noise = torch.randn(4, 5, 2, generator=stream, dtype=torch.float64)
    return model, policy, critic, start, noise


VARIANTS = [
    {},
    {"model": {"dynamics": "flow"}},
    {"model": {"dynamics": "flow", "flow": {"integrator": "heun", "substeps": 4}}},
    {"model": {"reward": "two_hot", "reward_bins": 21}},
]


@pytest.mark.parametrize("changes", VARIANTS)
def test_the_gradient_of_an_action_plan_equals_finite_differences(changes, tiny, stream):
    """With open actions in place of the policy, every path of the gradient through time is counted."""
    model, _, critic, start, noise = parts(tiny(**changes), stream)
    plan = (0.5 * noise).requires_grad_()

    def value(actions):
        def follow(latent, eps):
            return eps

        return returns(imagine(model, follow, start, actions, GAMMA), critic).mean()  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(value, (plan,), eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("changes", VARIANTS)
def test_the_gradient_in_one_imagined_step_equals_finite_differences_in_the_weights(changes, tiny, stream):
    """Over one step the detached input of the policy hides nothing."""
    model, policy, critic, start, noise = parts(tiny(**changes), stream)
    weight = next(p for name, p in policy.named_parameters() if name.endswith("2.weight"))

    def value():
        return returns(imagine(model, policy, start, noise[:1], GAMMA), critic).mean()

    (gradient,) = torch.autograd.grad(value(), [weight])
    for index in [(0, 0), (1, 3), (0, 7)]:
        moved = []
        for h in (1e-6, -1e-6):
            with torch.no_grad():
                weight[index] += h
                moved.append(value().item())
                weight[index] -= h
        assert gradient[index].item() == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-4, abs=1e-8)


def test_a_certain_end_hides_everything_after_it(tiny, stream):
    model, policy, critic, start, noise = parts(tiny(), stream)
    with torch.no_grad():
        model.termination_head.weight.zero_()
        model.termination_head.bias.fill_(1e3)
        rollout = imagine(model, policy, start, noise, GAMMA)
        torch.testing.assert_close(returns(rollout, critic), rollout.reward[0])


def test_without_ends_the_return_is_the_discounted_sum(tiny, stream):
    model, policy, critic, start, noise = parts(tiny(), stream)
    with torch.no_grad():
        model.termination_head.weight.zero_()
        model.termination_head.bias.fill_(-1e3)
        rollout = imagine(model, policy, start, noise, GAMMA)
        expected = sum(GAMMA**t * rollout.reward[t] for t in range(4))
        expected = expected + GAMMA**4 * critic(rollout.latent[-1]).amin(0)
        torch.testing.assert_close(returns(rollout, critic), expected)
