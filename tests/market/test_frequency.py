"""Periods a year come from the calendar: what a Sharpe ratio is annualised with."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eigen2.envs.config import TradingConfig
from eigen2.evaluation.market import evaluate_market
from eigen2.evaluation.policies import equal_weight_benchmark
from eigen2.market.catalogue import samples
from eigen2.market.config import MarketConfig
from eigen2.market.frequency import frequency_of
from eigen2.market.load import load_market


def new_york(periods: int) -> pd.DatetimeIndex:
    """Business days without about nine holidays a year."""
    days = pd.bdate_range("2010-01-01", periods=periods + periods // 20)
    kept: pd.DatetimeIndex = days[np.arange(len(days)) % 29 != 7][:periods]
    return kept


CALENDARS = {
    "business days": (pd.bdate_range("2010-01-04", periods=900), "daily", 252),
    "New York": (new_york(900), "daily", 252),
    "Tel Aviv": (pd.bdate_range("2010-01-03", periods=900, freq="C", weekmask="Sun Mon Tue Wed Thu"), "daily", 252),
    "a few special Saturdays": (pd.bdate_range("2010-01-04", periods=900).union(pd.DatetimeIndex(["2011-01-08", "2011-03-05"])), "daily", 252),
    "ten days": (pd.bdate_range("2010-01-04", periods=10), "daily", 252),
    "Friday and Monday": (pd.DatetimeIndex(["2020-01-02", "2020-01-03", "2020-01-06"]), "daily", 252),
    "two years missing": (pd.bdate_range("2010-01-04", periods=400).union(pd.bdate_range("2014-01-06", periods=400)), "daily", 252),
    "crypto": (pd.date_range("2017-08-17", periods=900), "daily, seven days a week", 365),
    "weekly": (pd.date_range("2000-01-07", periods=600, freq="W-FRI"), "weekly", 52),
    "weekly, with holidays": (pd.DatetimeIndex([day - pd.Timedelta(days=int(number % 9 == 0)) for number, day in enumerate(pd.date_range("2000-01-07", periods=600, freq="W-FRI"))]), "weekly", 52),
    "month ends": (pd.date_range("1980-01-31", periods=400, freq="ME"), "monthly", 12),
    "last business days": (pd.date_range("1980-01-31", periods=400, freq="BME"), "monthly", 12),
    "quarters": (pd.date_range("1980-03-31", periods=100, freq="QE"), "quarterly", 4),
    "six days a week": (pd.bdate_range("2010-01-04", periods=900, freq="C", weekmask="Mon Tue Wed Thu Fri Sat"), "irregular, about 313 periods a year", 313),
    "every second day": (pd.date_range("2010-01-04", periods=900, freq="2D"), "irregular, about 183 periods a year", 183),
}  # fmt: skip


@pytest.mark.parametrize("name", CALENDARS)
def test_the_calendar_says_how_many_periods_a_year_has(name: str) -> None:
    dates, said, per_year = CALENDARS[name]
    found = frequency_of(dates.to_numpy().astype("datetime64[D]"))
    assert (found.name, found.periods_per_year) == (said, per_year)


def test_every_market_of_ours_is_daily_as_before() -> None:
    for sample in samples():
        assert load_market(MarketConfig(data=sample.name), 7).periods_per_year == 252


@pytest.mark.parametrize(("calendar", "per_year", "period"), [("weekly", 52, "week"), ("crypto", 365, "day")])
def test_figures_are_annualised_with_the_file_s_own_year(
    calendar: str, per_year: int, period: str, tmp_path: Path
) -> None:
    steps = 0.02 * np.random.default_rng(1).standard_normal((600, 3))
    dates = CALENDARS[calendar][0][:600]
    closes = pd.DataFrame(50 * np.exp(np.cumsum(steps, axis=0)), dates, ["A", "B", "C"])
    closes.rename_axis("date").to_csv(tmp_path / "prices.csv")
    config = TradingConfig(
        data=str(tmp_path / "prices.csv"), validation_days=100, holdout_days=100, features=("return_1",)
    )
    market = load_market(config, 0)
    policy = equal_weight_benchmark(market, config, market.validation)
    found = evaluate_market(market, config, policy, "validation", seed=0)
    returns = np.expm1(found.returns["equal_weight"])
    assert market.periods_per_year == per_year
    assert found.champion.performance.sharpe == pytest.approx(
        returns.mean() / returns.std(ddof=1) * np.sqrt(per_year), rel=1e-12
    )
    assert found.champion.turnover == pytest.approx(found.backtest.turnover[0].mean() * per_year)
    assert found.comparison.excess.annual == pytest.approx(0.0)
    assert found.to_json()["periods_per_year"] == per_year
    assert f"99 validation {period}s" in found.verdict.sentence

    as_daily = replace(market, dates=pd.bdate_range("2000-01-03", periods=600).to_numpy())
    daily = evaluate_market(as_daily, config, policy, "validation", seed=0)
    ratio = found.champion.performance.sharpe / daily.champion.performance.sharpe  # type: ignore[operator]
    assert ratio == pytest.approx(np.sqrt(per_year / 252), rel=1e-12)
