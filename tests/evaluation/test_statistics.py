"""Figures of a series: defined for every series, and honest about their uncertainty."""

import numpy as np
import pytest

from eigen2.evaluation import statistics
from eigen2.seeds import generator


def test_a_portfolio_that_never_moves_has_no_ratios_and_no_nan() -> None:
    figures = statistics.performance(np.zeros(100), 252, generator(0, "bootstrap"))
    assert figures.log_return == figures.cagr == figures.volatility == figures.max_drawdown == 0.0
    assert figures.sharpe is None
    assert figures.sharpe_ci is None
    assert figures.sortino is None
    assert figures.hit_rate is None


def test_a_constant_gain_has_no_sharpe_ratio_because_rounding_is_not_risk() -> None:
    assert statistics.sharpe(np.full(100, 0.1), 252) is None


def test_drawdown_is_measured_from_the_start_too() -> None:
    assert statistics.max_drawdown(np.log([0.9, 1.0, 1.2])) == pytest.approx(-0.1)


def test_hit_rate_counts_only_days_that_moved() -> None:
    assert statistics.hit_rate(np.array([0.0, 0.01, -0.01, 0.02, 0.0])) == pytest.approx(2 / 3)


def test_the_bootstrap_reads_only_its_own_stream() -> None:
    returns = np.random.default_rng(5).normal(0.001, 0.01, 200)
    first = statistics.sharpe_interval(returns, 252, generator(7, "bootstrap"))
    assert first == statistics.sharpe_interval(returns, 252, generator(7, "bootstrap"))
    assert first != statistics.sharpe_interval(returns, 252, generator(8, "bootstrap"))


def test_resampled_days_come_in_runs_of_the_stated_mean_length() -> None:
    days = statistics.stationary_days(1000, 200, generator(0, "runs"))
    assert days.min() >= 0
    assert days.max() < 1000
    broken = (np.diff(days, axis=1) % 1000 != 1).mean()
    assert 1 / broken == pytest.approx(10.0, rel=0.05)


def test_every_day_is_drawn_equally_often() -> None:
    counts = np.bincount(statistics.stationary_days(50, 4000, generator(1, "even")).ravel(), minlength=50)
    assert counts == pytest.approx(np.full(50, 4000), rel=0.12)


def test_the_95_percent_interval_of_the_sharpe_ratio_covers_the_truth_about_95_times_in_100() -> None:
    truth, covered, runs = 1.0, 0, 300
    for run in range(runs):
        returns = generator(run, "coverage").normal(truth / np.sqrt(252) * 0.01, 0.01, 251)
        found = statistics.sharpe_interval(returns, 252, generator(run, "bootstrap"), draws=500)
        assert found is not None
        covered += found.low <= truth <= found.high
    assert 0.90 <= covered / runs <= 0.99
