"""The quant's own baseline: fitted on training days alone, once, and played under everybody's fills and costs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.evaluation import ridge as module
from eigen2.evaluation.backtest import play
from eigen2.evaluation.market import evaluate_market
from eigen2.evaluation.policies import cash, equal_weight_benchmark
from eigen2.evaluation.ridge import Ridge, fit, fit_ridge, known_ridge, ridge_benchmark, sizes
from eigen2.market.data import MarketData, Split
from eigen2.market.load import load_market

SEED = 7


@pytest.fixture(scope="module")
def reversal() -> tuple[MarketData, TradingConfig, Ridge]:
    """(market, config, fitted) where yesterday's losers gain."""
    config = TradingConfig(data="planted_reversal", synthetic={"days": 1500, "symbols": 8})
    market = load_market(config, SEED)
    return market, config, fit_ridge(market, config)


def test_it_finds_a_planted_rule(reversal: tuple[MarketData, TradingConfig, Ridge]) -> None:
    market, config, ridge = reversal
    earned = play(market, ridge_benchmark(market, config, ridge), market.holdout)
    equal_weight = play(market, equal_weight_benchmark(market, config, market.holdout), market.holdout)
    assert earned.log_returns.sum() > equal_weight.log_returns.sum() + 0.2


def test_it_is_the_same_whatever_happens_after_training(
    reversal: tuple[MarketData, TradingConfig, Ridge],
) -> None:
    market, config, ridge = reversal
    stop = market.train.stop
    close, features, mask = market.close.copy(), market.features.copy(), market.mask.copy()
    close[stop:] *= np.linspace(3.0, 0.1, len(close) - stop)[:, None]
    features[stop:] = 5.0
    mask[stop:, 0] = False
    assert fit_ridge(replace(market, close=close, features=features, mask=mask), config) == ridge


def test_what_it_does_on_a_day_depends_on_no_later_day(
    reversal: tuple[MarketData, TradingConfig, Ridge],
) -> None:
    market, config, ridge = reversal
    day = market.holdout.start + 100
    close, features = market.close.copy(), market.features.copy()
    close[day + 1 :] *= 2.0
    features[day + 1 :] = -features[day + 1 :]
    changed = replace(market, close=close, features=features)
    whole, other = (
        play(each, ridge_benchmark(each, config, ridge), market.holdout) for each in (market, changed)
    )
    np.testing.assert_array_equal(whole.log_returns[0, :100], other.log_returns[0, :100])
    assert not np.array_equal(whole.log_returns[0, 101:], other.log_returns[0, 101:])


def test_the_coefficients_solve_the_penalised_least_squares(
    reversal: tuple[MarketData, TradingConfig, Ridge],
) -> None:
    market, _, _ = reversal
    days, horizon = Split("train", 100, 260), 3
    x, y = [], []
    for day in range(days.start, days.stop - 1 - horizon):
        later = np.log(market.close[day + 1 + horizon] / market.close[day + 1])
        x.append(market.features[day] - market.features[day].mean(axis=0))
        y.append(later - later.mean())
    rows, targets = np.concatenate(x).astype(np.float64), np.concatenate(y)
    penalty = np.sqrt(module.PENALTY * len(rows)) * np.eye(rows.shape[1])
    padded = np.concatenate([targets, np.zeros(rows.shape[1])])
    expected, *_ = np.linalg.lstsq(np.concatenate([rows, penalty]), padded, rcond=None)
    np.testing.assert_allclose(fit(market, market.close, days, horizon), expected, rtol=1e-5)


def test_it_holds_k_symbols_and_keeps_them_inside_the_band(
    reversal: tuple[MarketData, TradingConfig, Ridge],
) -> None:
    market, config, ridge = reversal
    for band in (0, 4):
        chosen = replace(ridge, size=2, band=band)
        played = play(market, ridge_benchmark(market, config, chosen), market.holdout)
        held = (played.weights[0] > 0).sum(axis=1)
        assert held.max() == 2
        assert held[1:].min() == 2
        assert (played.trades[0] > 100) == (band == 0)


def test_it_is_the_same_beside_orders_and_beside_weights(
    reversal: tuple[MarketData, TradingConfig, Ridge],
) -> None:
    market, config, ridge = reversal
    weights = config.model_copy(update={"actions": "weights"})
    assert fit_ridge(market, weights) == ridge
    one, other = (play(market, ridge_benchmark(market, c, ridge), market.holdout) for c in (config, weights))
    np.testing.assert_array_equal(one.log_returns, other.log_returns)


def test_an_evaluation_carries_the_fit_and_a_later_one_uses_it(
    reversal: tuple[MarketData, TradingConfig, Ridge], monkeypatch: pytest.MonkeyPatch
) -> None:
    market, config, ridge = reversal
    found = evaluate_market(market, config, cash, "validation", seed=SEED).to_json()
    stored = json.loads(json.dumps(found))
    monkeypatch.setattr(module, "fit_ridge", None)
    assert known_ridge(market, config, [{"ridge": None}, {}, stored]) == ridge
    again = evaluate_market(market, config, cash, "validation", seed=SEED, records=[stored]).to_json()
    assert again == found
    assert "a year less than ridge regression on the same features (95 % interval" in found["verdict"]
    with pytest.raises(TypeError):
        known_ridge(market, config.model_copy(update={"fee_bp": 50.0}), [stored])


def test_the_smallest_markets_have_a_baseline_too() -> None:
    config = TradingConfig(
        data="random_walk", window=2, features=("return_1",), validation_days=10, holdout_days=10,
        embargo_days=0, trading_days=5, settlement_days=0, synthetic={"days": 100, "symbols": 2},
    )  # fmt: skip
    market = load_market(config, SEED)
    short = replace(market, train=Split("train", market.train.stop - 20, market.train.stop))
    assert fit_ridge(short, config).size == 1
    assert sizes(1) == sizes(3) == (1,)
    assert sizes(20) == (1, 2, 3, 5, 10)
    assert sizes(2000) == (3, 5, 10, 20, 50)


def test_symbols_without_a_price_are_neither_bought_nor_in_the_way() -> None:
    config = TradingConfig(data="random_walk", synthetic={"days": 900, "symbols": 6})
    market = load_market(config, SEED)
    mask, features = market.mask.copy(), market.features.copy()
    mask[: market.holdout.stop, 0] = False
    mask[market.holdout.start + 50 :, 1] = False
    features[~mask] = 0.0
    gaps = replace(market, mask=mask, features=features, close=np.where(mask, market.close, np.nan))
    ridge = replace(fit_ridge(gaps, config), size=3, band=0)
    core_market = ridge_benchmark(gaps, config, ridge)
    played = play(gaps, core_market, gaps.holdout)
    assert np.isfinite(played.log_returns).all()
    assert played.weights[0, :, 0].max() == 0.0
    assert (played.weights[0, 60:, 1] == 0.0).all()
    assert ((played.weights[0, 60:] > 0).sum(axis=1) == 3).all()
    assert TradingCore(gaps, core_market.config, 1).settlement_days == 0
