"""Our figures equal those of ffn and empyrical-reloaded on the same series."""

import empyrical
import ffn
import numpy as np
import pandas as pd
import pytest

from eigen2.evaluation import overfitting, statistics

TOLERANCE = 1e-10


@pytest.fixture(params=[0, 1, 2], ids=["calm", "skewed", "fat-tailed"])
def log_returns(request: pytest.FixtureRequest) -> np.ndarray:
    rng = np.random.default_rng(request.param)
    noise = [rng.normal(size=700), rng.gumbel(size=700), rng.standard_t(4, size=700)][request.param]
    returns: np.ndarray = 0.0004 + 0.012 * noise
    return returns


@pytest.fixture
def simple(log_returns: np.ndarray) -> "pd.Series[float]":
    return pd.Series(np.expm1(log_returns), index=pd.bdate_range("2015-01-01", periods=len(log_returns)))


def test_sharpe_equals_ffn_and_empyrical(log_returns: np.ndarray, simple: "pd.Series[float]") -> None:
    ours = statistics.sharpe(np.expm1(log_returns), 252)
    assert ours == pytest.approx(ffn.calc_sharpe(simple, nperiods=252), rel=TOLERANCE)
    assert ours == pytest.approx(empyrical.sharpe_ratio(simple), rel=TOLERANCE)


def test_sortino_equals_ffn_and_empyrical(log_returns: np.ndarray, simple: "pd.Series[float]") -> None:
    ours = statistics.sortino(np.expm1(log_returns), 252)
    assert ours == pytest.approx(ffn.calc_sortino_ratio(simple, nperiods=252), rel=TOLERANCE)
    assert ours == pytest.approx(empyrical.sortino_ratio(simple), rel=TOLERANCE)


def test_drawdown_volatility_and_growth_equal_empyrical(
    log_returns: np.ndarray, simple: "pd.Series[float]"
) -> None:
    assert statistics.max_drawdown(log_returns) == pytest.approx(
        empyrical.max_drawdown(simple), rel=TOLERANCE
    )
    assert statistics.volatility(np.expm1(log_returns), 252) == pytest.approx(
        empyrical.annual_volatility(simple), rel=TOLERANCE
    )
    assert statistics.cagr(log_returns, 252) == pytest.approx(empyrical.cagr(simple), rel=TOLERANCE)


def test_total_return_and_drawdown_equal_ffn_on_prices(log_returns: np.ndarray) -> None:
    prices = pd.Series(100 * np.exp(np.concatenate([[0.0], np.cumsum(log_returns)])))
    figures = statistics.performance(log_returns, 252, np.random.default_rng(0))
    assert figures.simple_return == pytest.approx(ffn.calc_total_return(prices), rel=TOLERANCE)
    assert figures.max_drawdown == pytest.approx(ffn.calc_max_drawdown(prices), rel=TOLERANCE)


@pytest.mark.parametrize("trials", [2, 5, 12, 400])
def test_expected_maximum_equals_ffn(trials: int) -> None:
    assert overfitting.expected_maximum(trials) == pytest.approx(
        ffn.core.calc_expected_max_sharpe(trials, 1.0)
    )


def test_deflated_sharpe_equals_ffn_when_trials_spread_as_the_null_says(simple: "pd.Series[float]") -> None:
    """ffn takes the spread of the trials; trials that spread by exactly the null deviation must agree with ours."""
    trials = np.random.default_rng(3).normal(size=40)
    trials = (trials - trials.mean()) / trials.std(ddof=1) / np.sqrt(len(simple) - 1)
    theirs = ffn.core.calc_deflated_sharpe_ratio(simple, trials, nperiods=252, annualized_trials=False)
    assert overfitting.deflated_sharpe(np.asarray(simple, np.float64), 40) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_backtest_overfitting_equals_ffn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trials = rng.normal(size=(9, 85)) * 0.01 + np.linspace(0, 0.001 * seed, 9)[:, None]
    theirs = ffn.core.calc_prob_backtest_overfitting(
        pd.DataFrame(trials.T), n_blocks=8, metric=pd.Series.mean
    )
    assert overfitting.backtest_overfitting(trials, blocks=8) == pytest.approx(theirs)
