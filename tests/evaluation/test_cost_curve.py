"""What the same trades would have earned at other costs."""

import numpy as np
import pytest

from eigen2.evaluation.backtest import Backtest
from eigen2.evaluation.cost_curve import LEVELS_BP, cost_curve, joined_curve
from eigen2.evaluation.pictures import growth_band


def backtest(returns: list[float], turnover: list[float]) -> Backtest:
    days = len(returns)
    nothing = np.zeros((1, days, 1), np.float32)
    return Backtest(np.log1p([returns]), np.array([turnover]), np.zeros((1, days), np.int64), nothing, 252)


def test_a_return_falls_with_the_cost_of_what_is_traded() -> None:
    busy = backtest([0.01, 0.0], [1.0, 1.0])
    calm = backtest([0.002, 0.002], [0.0, 0.0])
    curve = cost_curve(busy, calm, charged_bp=10.0)
    table = curve.series()
    at = {bp: 100 * ((1.01 + 1e-4 * (10 - bp)) * (1 + 1e-4 * (10 - bp)) - 1) for bp in (0.0, 10.0, 50.0)}
    for bp, wanted in at.items():
        assert table["champion"][list(LEVELS_BP).index(bp)] == pytest.approx(wanted)
    assert table["equal_weight"] == pytest.approx(np.full(len(LEVELS_BP), 100 * (1.002**2 - 1)))
    # (1.011 - c)(1.001 - c) = 1
    assert curve.break_even_bp == pytest.approx(1e4 * (1.006 - np.sqrt(1 + 0.005**2)), abs=0.02)
    assert curve.break_even_equal_weight_bp == pytest.approx(39.9, abs=0.1)
    assert "earns nothing from 59.9 bp on" in curve.sentence


def test_what_loses_for_free_and_what_earns_at_any_cost_are_said_to() -> None:
    loser = cost_curve(backtest([-0.01], [1.0]), backtest([0.0], [0.0]), 10.0)
    assert (loser.break_even_bp, loser.break_even_equal_weight_bp) == (0.0, 0.0)
    assert "even without costs" in loser.sentence
    holder = cost_curve(backtest([0.01], [0.0]), backtest([0.0], [0.0]), 10.0)
    assert holder.break_even_bp is None
    assert "at every cost that was tried" in holder.sentence


def test_stretches_that_follow_each_other_are_joined() -> None:
    parts = [backtest([0.01], [2.0]), backtest([0.004], [1.0])]
    calm = backtest([0.0], [0.0])
    both = joined_curve([cost_curve(part, calm, 10.0).series() for part in parts], 10.0)
    whole = cost_curve(backtest([0.01, 0.004], [2.0, 1.0]), backtest([0.0, 0.0], [0.0, 0.0]), 10.0)
    assert both is not None
    assert both.growth["champion"] == pytest.approx(whole.growth["champion"])
    assert both.break_even_bp is None
    assert joined_curve([cost_curve(parts[0], calm, 10.0).series(), None], 10.0) is None


def test_a_band_holds_what_days_of_this_kind_come_to() -> None:
    returns = np.random.Generator(np.random.PCG64(1)).normal(0.001, 0.01, 2000)
    low, high = growth_band(returns, np.random.Generator(np.random.PCG64(2)))
    assert (low < high).all()
    # The last day of a random walk: 1.96 deviations to either side.
    assert high[-1] - low[-1] == pytest.approx(2 * 1.96 * returns.std() * np.sqrt(2000), rel=0.25)
    assert low[-1] < returns.sum() < high[-1]
