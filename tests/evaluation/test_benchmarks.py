"""Benchmarks do what their names say, through the same core, fills and costs as a champion."""

import numpy as np
import pytest

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.envs.trading.observation import Observation
from eigen2.errors import ConfigError
from eigen2.evaluation import policies
from eigen2.evaluation.backtest import Backtest, Strategy, run_policy
from eigen2.evaluation.oracle import has_oracle, oracle_benchmark
from eigen2.evaluation.random_policy import Activity, activity_of, random_benchmark, usual_activity
from eigen2.market.data import MarketData, Split
from eigen2.seeds import generator

SEED = 7


def play(market: MarketData, strategy: Strategy, split: Split, draws: int = 1) -> Backtest:
    return run_policy(TradingCore(market, strategy.config, draws), strategy.policy, split)


def test_equal_weight_buys_once_and_then_only_holds(sp20: tuple[MarketData, TradingConfig]) -> None:
    market, config = sp20
    result = play(market, policies.equal_weight_benchmark(market, config, market.holdout), market.holdout)
    assert result.trades[0] == 20
    assert result.opened[0, 0] == 20
    assert result.turnover[0, 1:].sum() == 0.0


def test_equal_weight_earns_exactly_the_mean_of_the_prices_less_one_cost(
    sp20: tuple[MarketData, TradingConfig],
) -> None:
    """By hand: money is split evenly at the close after the first decision and never touched again."""
    market, config = sp20
    days = market.holdout
    result = play(market, policies.equal_weight_benchmark(market, config, days), days)
    close = market.close[:, market.tradable]
    by_hand = np.mean(close[days.stop - 1] / close[days.start + 1]) / (1 + 15e-4)
    assert result.equity[0, -1] == pytest.approx(by_hand, rel=1e-12)


def test_rebalanced_returns_to_equal_weights_every_day(sp20: tuple[MarketData, TradingConfig]) -> None:
    market, config = sp20
    result = play(market, policies.rebalanced_benchmark(config), market.holdout)
    # Close-only prices: the fill is the close, so weights are equal at every close.
    assert result.weights == pytest.approx(np.full_like(result.weights, 1 / 20), abs=1e-6)
    assert (result.turnover[0] > 0).all()


def test_cash_never_moves(sp20: tuple[MarketData, TradingConfig]) -> None:
    market, config = sp20
    result = play(market, policies.cash_benchmark(config), market.holdout)
    assert not result.log_returns.any()
    assert not result.turnover.any()


@pytest.mark.parametrize("costs", [0.0, 50.0])
def test_benchmarks_pay_the_costs_of_the_config(sp20: tuple[MarketData, TradingConfig], costs: float) -> None:
    market, config = sp20
    config = config.model_copy(update={"fee_bp": costs, "slippage_bp": 0.0})
    days = market.holdout
    free = play(market, policies.rebalanced_benchmark(config), days).log_returns.sum()
    default = play(market, policies.rebalanced_benchmark(sp20[1]), days).log_returns.sum()
    assert free > default if costs == 0.0 else free < default


def test_a_backtest_uses_exactly_the_days_of_its_split(noise: tuple[MarketData, TradingConfig]) -> None:
    market, config = noise
    core = TradingCore(market, config, 1)
    seen = []

    def policy(observation: Observation, market: MarketData, config: TradingConfig) -> np.ndarray:
        seen.append(int(observation.day[0]))
        return policies.cash(observation, market, config)

    result = run_policy(core, policy, market.validation)
    assert seen == list(range(market.validation.start, market.validation.stop - 1))
    assert result.log_returns.shape == (1, market.validation.days - 1)
    assert core.books.day[0] == market.validation.stop - 1


def test_a_split_too_short_for_settlement_is_refused_with_the_key_to_change(
    noise: tuple[MarketData, TradingConfig],
) -> None:
    market, config = noise
    core = TradingCore(market, config, 1)
    with pytest.raises(ConfigError, match="env.holdout_days"):
        run_policy(core, policies.cash, Split("holdout", 500, 515))


def test_random_orders_open_as_many_positions_and_hold_them_as_long_as_the_champion(
    noise: tuple[MarketData, TradingConfig],
) -> None:
    market, config = noise
    activity = Activity(trades_per_day=0.6, holding_days=4.0, exposure=0.0, breadth=0.0, turnover=0.0)
    result = play(market, random_benchmark(config, activity, generator(0, "r")), market.train, draws=10)
    decisions = market.train.days - 1 - config.settlement_days
    assert result.trades == pytest.approx(np.full(10, 0.6 * decisions), abs=2)
    assert activity_of(result, decisions).holding_days == pytest.approx(4.0, rel=0.15)


def test_random_original_orders_keep_the_trade_count_too(noise: tuple[MarketData, TradingConfig]) -> None:
    market, config = noise
    config = config.model_copy(update={"actions": "original"})
    activity = Activity(trades_per_day=0.3, holding_days=15.0, exposure=0.0, breadth=0.0, turnover=0.0)
    result = play(market, random_benchmark(config, activity, generator(0, "r")), market.train, draws=5)
    decisions = market.train.days - 1 - config.settlement_days
    assert result.trades == pytest.approx(np.full(5, 0.3 * decisions), abs=2)


def test_random_weights_have_the_champions_exposure_breadth_and_turnover(
    planted: tuple[MarketData, TradingConfig],
) -> None:
    market, config = planted
    activity = Activity(trades_per_day=0.0, holding_days=0.0, exposure=0.7, breadth=3.0, turnover=0.4)
    result = play(market, random_benchmark(config, activity, generator(0, "r")), market.train, draws=10)
    found = activity_of(result, market.train.days - 1)
    assert found.exposure == pytest.approx(0.7, abs=0.01)
    assert found.breadth == pytest.approx(3.0, abs=0.1)
    assert found.turnover == pytest.approx(0.4, rel=0.1)


def test_random_play_without_a_champion_to_imitate_still_trades(
    planted: tuple[MarketData, TradingConfig], noise: tuple[MarketData, TradingConfig]
) -> None:
    for market, config in (planted, noise):
        strategy = random_benchmark(config, usual_activity(len(market.tradable)), generator(0, "r"))
        assert play(market, strategy, market.validation).trades[0] > 0


@pytest.mark.parametrize("data", ["planted_reversal", "planted_momentum", "planted_lead_lag"])
@pytest.mark.parametrize("actions", ["orders", "weights"])
def test_the_oracle_beats_equal_weight_on_days_it_was_not_tuned_on(data: str, actions: str) -> None:
    from eigen2.market.load import load_market

    config = TradingConfig(data=data, actions=actions, holdout_days=600)
    market = load_market(config, SEED)
    days = market.holdout
    oracle = play(market, oracle_benchmark(market, config, SEED), days).log_returns[0]
    equal_weight = play(market, policies.equal_weight_benchmark(market, config, days), days).log_returns[0]
    excess_per_125_days = 125 * (oracle - equal_weight).mean()
    assert excess_per_125_days > (0.2 if actions == "weights" else 0.03)


def test_only_planted_markets_have_an_oracle() -> None:
    assert has_oracle("planted")
    assert has_oracle("planted_momentum")
    assert not has_oracle("sp20")
    assert not has_oracle("random_walk")
