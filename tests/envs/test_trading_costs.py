"""One cost model serves the order rules, the weight rules and the direct gradient."""

import numpy as np
import pytest
import torch

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading.costs import CostModel

COSTS = CostModel.of(TradingConfig(fee_bp=30.0, slippage_bp=20.0))
TRADED = np.array([[0.1, 0.0, 0.4], [0.0, 0.0, 0.0]])


def test_fee_and_slippage_are_charged_on_the_value_traded() -> None:
    assert COSTS.each(np.array([1.0, 200.0])) == pytest.approx([0.005, 1.0])


def test_arrays_and_tensors_cost_the_same() -> None:
    np.testing.assert_array_equal(COSTS.total(TRADED), COSTS.total(torch.as_tensor(TRADED)).numpy())
    assert COSTS.total(TRADED) == pytest.approx(COSTS.each(TRADED).sum(axis=1))


def test_what_is_affordable_is_paid_for_exactly() -> None:
    money = np.array([0.0, 0.3, 7.0])
    assert COSTS.paid(COSTS.affordable(money)) == pytest.approx(money)
    assert COSTS.paid(money) == pytest.approx(money + COSTS.each(money))


def test_the_slope_is_the_derivative_of_the_total() -> None:
    direction = np.array([[1.0, 0.5, -0.25], [0.0, 1.0, 1.0]])
    numeric = (COSTS.total(TRADED + 1e-3 * direction) - COSTS.total(TRADED)) / 1e-3
    assert COSTS.slope(direction) == pytest.approx(numeric)
