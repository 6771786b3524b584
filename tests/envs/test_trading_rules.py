"""Each rule of the trading environment, on prices and numbers that can be checked by hand."""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore

NAN = np.nan
FREE = {"fee_bp": 0.0, "slippage_bp": 0.0}


@pytest.fixture
def make_core(markets: ModuleType) -> Callable[..., TradingCore]:
    def make(close: Any, open_: Any = None, high: Any = None, **config: Any) -> TradingCore:
        columns = [None if table is None else np.array(table, float).T for table in (close, open_, high)]
        options = {"trading_days": 3, "settlement_days": 0, **FREE, **config}
        return TradingCore(markets.market_from_prices(*columns), TradingConfig(**options), 1)

    return make


def order(core: TradingCore, *coefficients: float, target: float = 0.5) -> np.ndarray:
    """One action: a coefficient per symbol, the same sale target for all."""
    return np.array([[[coefficient, target] for coefficient in coefficients]])


def target_of(gain: float, low: float = 0.02, high: float = 0.5) -> float:
    """The action value that asks for this gain."""
    return math.log(gain / low) / math.log(high / low)


def test_an_order_fills_at_the_next_open_with_a_tenth_of_equity(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100, 120, 130, 130]], open_=[[90, 110, 120, 130]])
    core.reset(0)
    step = core.step(order(core, 1.0))
    assert core.shares[0, 0] == pytest.approx(0.1 / 110)
    assert core.equity[0] == pytest.approx(1 + 0.1 * 10 / 110)
    assert step.reward[0] == pytest.approx(np.log(1 + 0.1 * 10 / 110))
    assert step.opened[0] == 1
    assert step.turnover[0] == pytest.approx(0.1)


def test_a_market_without_opens_fills_at_the_next_close(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100, 120, 132, 132]])
    core.reset(0)
    assert core.step(order(core, 1.0)).reward[0] == 0.0
    assert core.shares[0, 0] == pytest.approx(0.1 / 120)
    assert core.step(order(core, 1.0)).reward[0] == pytest.approx(np.log(1.01))


def test_costs_are_paid_out_of_the_position_on_both_sides(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100, 100, 100, 100]], fee_bp=70.0, slippage_bp=30.0, position_fraction=1.0)
    core.reset(0)
    core.step(order(core, 1.0))
    assert core.cash[0] == 0.0
    assert core.equity[0] == pytest.approx(1 / 1.01)
    core.step(order(core, -1.0))
    assert core.cash[0] == pytest.approx(0.99 / 1.01)
    assert core.books.costs[0] == pytest.approx(1 - 0.99 / 1.01)


def test_a_target_reached_by_the_high_fills_at_the_target(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100, 100, 101, 90]], open_=[[100, 100, 100, 90]], high=[[100, 100, 115, 90]])
    core.reset(0)
    core.step(order(core, 1.0, target=target_of(0.10)))
    core.step(order(core, 0.0))
    assert core.shares[0, 0] == 0.0
    assert core.cash[0] == pytest.approx(0.9 + 0.1 * 1.10)


def test_a_gap_over_the_target_fills_at_the_open(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100, 100, 118, 90]], open_=[[100, 100, 120, 90]], high=[[100, 100, 125, 90]])
    core.reset(0)
    core.step(order(core, 1.0, target=target_of(0.10)))
    core.step(order(core, 0.0))
    assert core.cash[0] == pytest.approx(0.9 + 0.1 * 1.20)


def test_without_bars_a_close_above_the_target_is_sold_at_the_next_close_and_not_bought_back_there(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100, 100, 118, 90]])
    core.reset(0)
    core.step(order(core, 1.0, target=target_of(0.10)))
    core.step(order(core, 0.0))
    assert core.equity[0] == pytest.approx(0.9 + 0.1 * 1.18)
    assert core.cash[0] == pytest.approx(0.9)
    core.step(order(core, 1.0))
    assert core.cash[0] == pytest.approx(0.9 + 0.1 * 0.90)
    assert core.shares[0, 0] == 0.0


def test_the_first_versions_sold_at_the_close_that_reached_the_target(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100, 100, 118, 90]], target_fill="same_close")
    core.reset(0)
    core.step(order(core, 1.0, target=target_of(0.10)))
    core.step(order(core, 0.0))
    assert core.cash[0] == pytest.approx(0.9 + 0.1 * 1.18)


def test_a_position_opened_at_the_open_may_reach_its_target_the_same_day(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100, 101, 90, 90]], open_=[[100, 100, 90, 90]], high=[[100, 112, 90, 90]])
    core.reset(0)
    step = core.step(order(core, 1.0, target=target_of(0.10)))
    assert core.shares[0, 0] == 0.0
    assert step.reward[0] == pytest.approx(np.log(1.01))
    assert step.turnover[0] == pytest.approx(0.21)


def test_a_position_opened_at_the_close_cannot_reach_its_target_the_same_day(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100, 101, 90, 90]], open_=[[100, NAN, 90, 90]], high=[[100, 150, 90, 90]])
    core.reset(0)
    core.step(order(core, 1.0, target=target_of(0.10)))
    assert core.shares[0, 0] == pytest.approx(0.1 / 101)


def test_a_position_is_sold_at_the_close_after_the_holding_limit(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100, 100, 101, 102, 103, 104]], trading_days=5, max_holding_days=2)
    core.reset(0)
    core.step(order(core, 1.0))
    core.step(order(core, 0.0))
    assert core.shares[0, 0] > 0.0
    core.step(order(core, 0.0))
    assert core.shares[0, 0] == 0.0
    assert core.cash[0] == pytest.approx(0.9 + 0.1 * 1.02)


def test_a_negative_coefficient_sells_a_held_symbol_at_the_next_fill(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100, 100, 99, 99]], open_=[[100, 100, 104, 99]])
    core.reset(0)
    core.step(order(core, 1.0))
    core.step(order(core, -0.01))
    assert core.shares[0, 0] == 0.0
    assert core.cash[0] == pytest.approx(0.9 + 0.1 * 1.04)


def test_the_original_rule_has_no_learned_exit(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100, 100, 99, 99]], actions="original")
    core.reset(0)
    core.step(order(core, 1.0))
    core.step(order(core, -1.0))
    assert core.shares[0, 0] > 0.0


def test_the_original_rule_looks_only_at_the_largest_coefficient(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100] * 4, [50] * 4], actions="original")
    core.reset(0)
    core.step(order(core, 0.9, 0.6))
    core.step(order(core, 0.9, 0.6))
    assert core.shares[0, 0] > 0.0
    assert core.shares[0, 1] == 0.0


@pytest.mark.parametrize(("value", "gain"), [(0.0, 0.10), (0.5, 0.30), (1.0, 0.50), (-3.0, 0.10)])
def test_original_targets_run_linearly_from_ten_to_fifty_per_cent(
    make_core: Callable[..., TradingCore], value: float, gain: float
) -> None:
    core = make_core([[100] * 4], actions="original")
    core.reset(0)
    core.step(order(core, 1.0, target=value))
    assert core.books.target[0, 0] == pytest.approx(100 * (1 + gain))


@pytest.mark.parametrize(("value", "gain"), [(0.0, 0.02), (0.5, 0.10), (1.0, 0.50), (7.0, 0.50)])
def test_targets_run_geometrically_over_the_configured_range(
    make_core: Callable[..., TradingCore], value: float, gain: float
) -> None:
    core = make_core([[100] * 4])
    core.reset(0)
    core.step(order(core, 1.0, target=value))
    assert core.books.target[0, 0] == pytest.approx(100 * (1 + gain))


def test_at_most_max_new_positions_are_opened_the_largest_coefficients_first(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100] * 4] * 4, max_new_positions=2)
    core.reset(0)
    step = core.step(order(core, 0.6, 0.9, 0.7, 0.4))
    assert step.opened[0] == 2
    assert (core.shares[0] > 0.0).tolist() == [False, True, True, False]
    np.testing.assert_allclose(core.shares[0, 1:3], 0.001)


def test_a_coefficient_must_exceed_the_threshold_to_open(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100] * 4], threshold=0.5)
    core.reset(0)
    core.step(order(core, 0.5))
    assert core.shares[0, 0] == 0.0


def test_a_held_symbol_is_not_bought_twice_the_next_best_is(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100] * 4, [50] * 4])
    core.reset(0)
    core.step(order(core, 0.9, 0.6))
    first = core.shares[0, 0]
    core.step(order(core, 0.9, 0.6))
    assert core.shares[0, 0] == first
    assert core.shares[0, 1] > 0.0


def test_cash_is_finite_and_when_all_slots_are_taken_nothing_is_opened(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100] * 5] * 3, position_fraction=0.5, trading_days=4, fee_bp=100.0)
    core.reset(0)
    for _ in range(3):
        core.step(order(core, 0.9, 0.8, 0.7))
    assert (core.shares[0] > 0.0).tolist() == [True, True, False]
    assert core.cash[0] == 0.0
    np.testing.assert_allclose(core.shares[0, :2] * 100, 0.5 / 1.01)


@pytest.mark.parametrize(
    ("fraction", "size"), [(1.0, 1.0), (0.5, 0.5), (0.4, 1 / 3), (0.1, 0.1), (0.07, 1 / 15)]
)
def test_a_first_position_takes_at_most_its_fraction_of_equity(
    make_core: Callable[..., TradingCore], fraction: float, size: float
) -> None:
    core = make_core([[100] * 5], position_fraction=fraction)
    core.reset(0)
    core.step(order(core, 1.0))
    assert core.cash[0] == pytest.approx(1.0 - size)


def test_in_settlement_only_exits_happen(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100] * 6, [50] * 6], trading_days=2, settlement_days=3)
    core.reset(0)
    core.step(order(core, 0.9, 0.0))
    observation = core.step(order(core, 0.9, 0.0)).observation
    assert observation.account[0, 4] == 1.0
    core.step(order(core, 0.9, 0.9))
    assert (core.shares[0] > 0.0).tolist() == [True, False]
    core.step(order(core, -0.9, 0.9))
    assert (core.shares[0] > 0.0).tolist() == [False, False]
    assert core.step(order(core, 0.9, 0.9)).terminated[0]


def test_the_time_limit_empties_the_portfolio_by_the_end_of_settlement(markets: ModuleType) -> None:
    market = markets.random_market(0, 200, 5)
    core = TradingCore(market, TradingConfig(), 4)
    core.reset([0, 10, 20, 54])
    rng = np.random.default_rng(0)
    for _ in range(core.episode_steps):
        step = core.step(rng.uniform(0.0, 1.0, (4, 5, 2)))
    assert step.terminated.all()
    assert (core.shares == 0.0).all()
    assert core.episode_steps == 145


def test_a_symbol_unknown_on_the_fill_day_is_not_bought(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100, NAN, 100, 100], [50, 50, 50, 50]])
    core.reset(0)
    core.step(order(core, 0.9, 0.6))
    assert (core.shares[0] > 0.0).tolist() == [False, True]


def test_a_holding_without_a_price_is_carried_and_sold_when_the_price_returns(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100, 100, NAN, 110, 110]], trading_days=4, max_holding_days=1)
    core.reset(0)
    core.step(order(core, 1.0))
    assert core.step(order(core, -1.0)).reward[0] == 0.0
    assert core.shares[0, 0] > 0.0
    core.step(order(core, 0.0))
    assert core.cash[0] == pytest.approx(0.9 + 0.1 * 1.10)


@pytest.mark.parametrize("actions", ["orders", "weights"])
def test_a_delisted_holding_is_closed_at_its_last_price_less_the_penalty(
    make_core: Callable[..., TradingCore], actions: str
) -> None:
    close = [[100, 100, 80] + [NAN] * 6]
    core = make_core(close, trading_days=8, actions=actions, delisting_penalty=0.25, position_fraction=1.0)
    action = order(core, 1.0) if actions == "orders" else np.array([[10.0, -10.0]])
    core.reset(0)
    for _ in range(6):
        core.step(action)
        assert core.shares[0, 0] > 0.0
    assert core.equity[0] == pytest.approx(0.8)
    step = core.step(action)
    assert core.shares[0, 0] == 0.0
    assert core.equity[0] == pytest.approx(0.6)
    assert core.books.costs[0] == pytest.approx(0.2)
    assert step.contribution[0, 0] == pytest.approx(-0.25)


def test_weights_hold_the_softmax_of_the_logits_after_costs(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100, 100, 110, 110], [50, 50, 50, 50]], actions="weights", fee_bp=50.0)
    core.reset(0)
    core.step(np.log([[0.5, 0.3, 0.2]]))
    equity = 1 / (1 + 0.005 * 0.8)
    assert core.equity[0] == pytest.approx(equity, abs=1e-13)
    np.testing.assert_allclose(core.shares[0] * [100, 50], equity * np.array([0.5, 0.3]), rtol=1e-12)
    assert core.cash[0] == pytest.approx(0.2 * equity, abs=1e-13)
    assert core.episode_steps == 3


def test_weights_leave_symbols_without_a_price_alone(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100, 100, NAN, 120], [50, 50, 50, 50]], actions="weights")
    core.reset(0)
    core.step(np.log([[0.5, 0.25, 0.25]]))
    core.step(np.array([[10.0, -10.0, 10.0]]))
    np.testing.assert_allclose(core.shares[0, 0], 0.5 / 100)
    assert core.cash[0] == pytest.approx(0.5, abs=1e-8)


def test_contribution_is_the_excess_over_equal_weight_minus_costs(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100, 100, 110, 110], [50, 50, 50, 50]], fee_bp=100.0)
    core.reset(0)
    opening = core.step(order(core, 1.0, 0.0))
    size = 0.1 / 1.01
    assert opening.contribution[0].tolist() == pytest.approx([-0.01 * size, 0.0])
    weight = size / core.equity[0]
    step = core.step(order(core, 0.0, 0.0))
    assert step.contribution[0].tolist() == pytest.approx([weight * (0.10 - 0.05), 0.0])


def test_realised_reward_pays_the_weighted_gain_on_closing_and_punishes_inaction(
    make_core: Callable[..., TradingCore],
) -> None:
    core = make_core([[100, 100, 110, 110, 110]], trading_days=4, reward="realised")
    core.reset(0)
    assert core.step(order(core, 0.8)).reward[0] == 0.0
    assert core.step(order(core, 0.0)).reward[0] == 0.0
    assert core.step(order(core, -1.0)).reward[0] == pytest.approx(0.8 * 10.0)
    assert core.step(order(core, 0.0)).reward[0] == -5.0


def test_realised_reward_needs_positions_that_close() -> None:
    with pytest.raises(ValueError, match="actions=orders"):
        TradingConfig(actions="weights", reward="realised")


def test_the_observation_shows_the_position_and_the_account(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100, 100, 110, 110]], position_fraction=0.5, max_holding_days=10)
    first = core.reset(0)
    assert not first.positions.any()
    assert first.account[0].tolist() == [1.0, 0.0, 0.0, 1.0, 0.0]
    core.step(order(core, 1.0, target=target_of(0.21)))
    seen = core.step(order(core, 0.0)).observation
    assert seen.day.tolist() == [2]
    assert seen.day.dtype == np.int32
    expected = [0.55 / 1.05, np.log(1.1), 0.1, np.log(1.1)]
    np.testing.assert_allclose(seen.positions[0, 0], expected, rtol=1e-3)
    np.testing.assert_allclose(
        seen.account[0], [0.5 / 1.05, 0.55 / 1.05, np.log(1.05), 1 / 3, 0.0], rtol=1e-6
    )


def test_finished_portfolios_stay_frozen_until_all_are_done(markets: ModuleType) -> None:
    core = TradingCore(markets.random_market(0, 60, 4), TradingConfig(settlement_days=0), 2)
    core.reset([0, 0], [2, 5])
    rng = np.random.default_rng(0)
    rewards = [core.step(rng.uniform(0.0, 1.0, (2, 4, 2))) for _ in range(5)]
    assert [step.terminated.tolist() for step in rewards[:3]] == [
        [False, False],
        [True, False],
        [True, False],
    ]
    assert rewards[2].reward[0] == 0.0
    assert rewards[2].equity[0] == rewards[1].equity[0]
    assert core.books.day.tolist() == [2, 5]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros((1, 3, 2)), r"shape \(1, 3, 2\), but orders needs \(1, 1, 2\)"),
        (np.full((1, 1, 2), np.nan), r"action is nan at \(0, 0, 0\)"),
        (np.zeros((1, 1, 2), np.int64), "dtype int64"),
    ],
)
def test_actions_that_make_no_sense_are_refused_by_name(
    make_core: Callable[..., TradingCore], action: np.ndarray, message: str
) -> None:
    core = make_core([[100] * 5])
    core.reset(0)
    with pytest.raises(ValueError, match=message):
        core.step(action)


@pytest.mark.parametrize(("start", "days"), [(-1, 2), (0, 0), (3, 2)])
def test_episodes_that_do_not_fit_the_market_are_refused(
    make_core: Callable[..., TradingCore], start: int, days: int
) -> None:
    core = make_core([[100] * 5])
    with pytest.raises(ValueError, match="do not fit into the 5 days"):
        core.reset(start, days)


def test_state_of_another_shape_is_refused(make_core: Callable[..., TradingCore]) -> None:
    core = make_core([[100] * 5])
    with pytest.raises(ValueError, match="'cash' is float64"):
        core.load_state_dict({**core.state_dict(), "cash": np.zeros(2)})
    with pytest.raises(ValueError, match="cash"):
        core.load_state_dict({name: value for name, value in core.state_dict().items() if name != "cash"})
