import math

import pytest
import torch

from eigen2.algorithms.pwm.config import ModelConfig
from eigen2.algorithms.pwm.dynamics import FlowDynamics
from eigen2.algorithms.pwm.flow import draw_times, integrate, path_point
from eigen2.nets.simnorm import groups, logits_of, simnorm


def growth(point, tau):
    """dz/dtau = z (1 + tau), whose solution is z_0 exp(tau + tau^2 / 2)."""
    return point * (1 + tau)


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("heun", 2)])
def test_halving_the_step_divides_the_error_by_two_to_the_order(integrator, order):
    start = torch.tensor([1.0, -2.0], dtype=torch.float64)
    exact = start * math.exp(1.5)
    errors = [(integrate(growth, start, integrator, k) - exact).abs().max().item() for k in (32, 64, 128)]
    for coarse, fine in zip(errors, errors[1:], strict=False):
        assert math.log2(coarse / fine) == pytest.approx(order, abs=0.1)


@pytest.mark.parametrize("integrator", ["euler", "heun"])
@pytest.mark.parametrize("substeps", [1, 2, 4])
def test_the_velocity_target_integrates_back_to_the_end_of_the_path(integrator, substeps, stream):
    start, end = (simnorm(torch.randn(6, 16, generator=stream, dtype=torch.float64)) for _ in range(2))
    tau = torch.rand(6, 1, generator=stream, dtype=torch.float64)
    _, velocity = path_point(logits_of(start), logits_of(end), tau)
    reached = integrate(lambda point, tau: velocity, logits_of(start), integrator, substeps)
    torch.testing.assert_close(simnorm(reached), end, atol=1e-4, rtol=0)


def test_the_path_runs_from_start_to_end(stream):
    start, end = (torch.randn(6, 16, generator=stream) for _ in range(2))
    torch.testing.assert_close(path_point(start, end, torch.zeros(6, 1))[0], start)
    torch.testing.assert_close(path_point(start, end, torch.ones(6, 1))[0], end)


def test_a_field_that_knows_the_velocity_has_no_error(stream):
    """What the loss asks for is what integration needs: the path's own velocity, at any tau."""
    dynamics = FlowDynamics(ModelConfig.model_validate({"latent": 16, "dynamics": "flow"}), 2, stream)
    start, end = (simnorm(torch.randn(6, 16, generator=stream)) for _ in range(2))
    action = torch.randn(6, 2, generator=stream)
    dynamics.velocity = lambda latent, action, tau: logits_of(end) - logits_of(start)  # type: ignore[method-assign]
    reached = dynamics(start, action)
    torch.testing.assert_close(reached, end, atol=1e-4, rtol=0)
    assert dynamics.error(start, action, reached, end, dynamics.draw(action, stream)).max() < 1e-7


def test_times_are_drawn_from_the_unit_interval(stream):
    like = torch.zeros(1000, 3)
    uniform = draw_times(like, stream)
    assert uniform.shape == (1000, 1)
    assert 0 <= uniform.min() < 0.02 < 0.98 < uniform.max() <= 1


@pytest.mark.parametrize(("integrator", "substeps"), [("euler", 2), ("heun", 4)])
def test_latents_stay_on_the_simplex_over_a_long_rollout(integrator, substeps, stream):
    config = ModelConfig.model_validate(
        {
            "latent": 16,
            "units": [16],
            "dynamics": "flow",
            "flow": {"integrator": integrator, "substeps": substeps},
        }
    )
    dynamics = FlowDynamics(config, 2, stream)
    with torch.no_grad():
        for parameter in dynamics.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=stream))
        latent = simnorm(torch.randn(5, 16, generator=stream))
        for _ in range(16):
            latent = dynamics(latent, torch.randn(5, 2, generator=stream))
            assert (latent >= 0).all()
            torch.testing.assert_close(groups(latent).sum(-2), torch.ones(5, 2))


def test_the_linear_head_learns_to_carry_latents_anywhere(stream):
    """A head that ends in SimNorm could never take a logit down: its loss stops at about 1/64 per element."""
    config = ModelConfig.model_validate({"latent": 16, "units": [64], "dynamics": "flow"})
    dynamics = FlowDynamics(config, 1, stream)
    start, end = (simnorm(2 * torch.randn(32, 16, generator=stream)) for _ in range(2))
    action = torch.randn(32, 1, generator=stream)
    optimiser = torch.optim.Adam(dynamics.parameters(), lr=3e-3)
    at_first = (
        dynamics.error(start, action, dynamics(start, action), end, dynamics.draw(action, stream))
        .mean()
        .item()
    )
    for _ in range(400):
        loss = dynamics.error(
            start, action, dynamics(start, action), end, dynamics.draw(action, stream)
        ).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < at_first / 15
    assert (dynamics(start, action) - end).square().mean() < 1 / 64 / 5
