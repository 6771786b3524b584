"""`data check` says what was read, and all that `train` would refuse with the same overrides, each once."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from price_corpus import LAYOUTS, truth

from eigen2.algorithms import registry
from eigen2.config import load_config
from eigen2.envs.config import GymConfig, TradingConfig
from eigen2.envs.trading.price_check import check_for_trading
from eigen2.errors import ConfigError, DataError
from eigen2.market.config import MarketConfig
from eigen2.market.load import load_market
from eigen2.market.price_check import check_prices

SMALL = MarketConfig(window=16, validation_days=40, holdout_days=40, embargo_days=5)


def wide(path: Path, dates: pd.DatetimeIndex) -> Path:
    close = 50 * np.exp(np.cumsum(0.01 * np.random.default_rng(4).standard_normal((len(dates), 3)), axis=0))
    pd.DataFrame(close, dates.rename("date"), ["A", "B", "C"]).to_csv(path)
    return path


def test_what_was_read_is_said(ragged_file: Path) -> None:
    facts = json.loads(json.dumps(check_prices(ragged_file, SMALL).to_json()))
    assert facts["ok"] is True
    assert facts["format"] == "CSV, a row per day and symbol"
    assert facts["prices"] == ["open", "high", "low", "close", "volume"]
    assert (facts["days"], facts["first"], facts["last"]) == (400, "2010-01-04", "2011-07-15")
    assert (facts["frequency"], facts["periods_per_year"]) == ("daily", 252)
    assert facts["gaps"] == {"HOLE": {"missing": 6, "longest": 6, "after": "2010-10-08"}}
    assert facts["listed_late"] == {"LATE": "2010-06-21"}
    assert facts["delisted"] == {"GONE": "2011-04-08"}
    market = load_market(SMALL.model_copy(update={"data": str(ragged_file)}), 0)
    for name, split in facts["splits"].items():
        days = market.split(name)
        assert (split["days"], split["first"]) == (days.days, str(market.dates[days.start]))
        assert split["last"] == str(market.dates[days.stop - 1])


def test_a_person_can_read_it(ragged_file: Path) -> None:
    config = TradingConfig(
        window=16,
        validation_days=40,
        holdout_days=40,
        embargo_days=5,
        trading_days=20,
        settlement_days=5,
        delisting_penalty=0.3,
    )
    said = "\n".join(check_for_trading(ragged_file, config).lines())
    assert "days         400, 2010-01-04 to 2011-07-15" in said
    assert "listed late  LATE 2010-06-21" in said
    assert (
        "delisted     GONE 2011-04-08; a holder loses 30 % (env.delisting_penalty)".replace(" %", "%") in said
    )
    assert "holdout      40 days, 2011-05-23 to 2011-07-15" in said
    assert said.endswith(f"{ragged_file} can be used.")


def test_everything_that_training_would_refuse_is_listed_at_once(tmp_path: Path) -> None:
    path = wide(tmp_path / "prices.csv", pd.bdate_range("2015-01-01", periods=700))
    overrides = [
        "env.features=[return_1,volume]", "env.tradable=[A,Z]", "env.validation_days=30", "env.settlement_days=29",
        "env.window=8", "alg.encoder_layers=4",
    ]  # fmt: skip
    config = load_config(overrides)
    found = check_for_trading(path, config.env)
    found = found.also_refused(registry.algorithm("erl").refuses(config, found.split_days))
    said = " | ".join(found.refused)
    for words in (
        "asks for volume", "env.tradable names Z", "too few for 29 settlement days", "looks back 16 days",
        "does not fit into the 30 validation days",
    ):  # fmt: skip
        assert said.count(words) == 1, said
    with pytest.raises(ConfigError, match="5 problems, each listed above"):
        found.require_usable()


def test_what_is_accepted_is_trained_on_and_what_is_refused_is_not(tmp_path: Path) -> None:
    path = wide(tmp_path / "prices.csv", pd.bdate_range("2015-01-01", periods=700))
    for changes in (
        {},
        {"holdout_days": 400},
        {"start": "2017-06-01"},
        {"start": "soon"},
        {"context": ("Q",)},
    ):
        config = MarketConfig(data=str(path), **changes)
        try:
            load_market(config, 0)
        except (ConfigError, DataError):
            assert not check_prices(path, config).ok
        else:
            assert check_prices(path, config).ok


def test_weekly_lengths_are_told_in_years_and_the_way_out_is_named(tmp_path: Path) -> None:
    path = wide(tmp_path / "prices.csv", pd.date_range("2010-01-01", periods=500, freq="W-FRI"))
    few = check_prices(path, MarketConfig())
    (error,) = [finding for finding in few.findings if finding.severity == "error"]
    assert "has 500 weeks, but 628 are needed" in error.problem
    assert "env.validation_days=52 env.holdout_days=52" in error.advice
    enough = check_prices(path, MarketConfig(validation_days=52, holdout_days=104))
    (warning,) = enough.findings
    assert enough.ok
    assert "prices are weekly, so lengths count weeks and a year has 52" in warning.sentence()
    assert "env.holdout_days=104 is 2.0 years" in warning.sentence()
    config = MarketConfig(data=str(path), validation_days=52, holdout_days=104)
    assert any("lengths count weeks" in caveat for caveat in load_market(config, 0).caveats)


def test_a_calendar_with_a_hole_is_told(tmp_path: Path) -> None:
    days = pd.bdate_range("2010-01-04", periods=300).union(pd.bdate_range("2013-01-07", periods=300))
    found = check_prices(wide(tmp_path / "prices.csv", days), SMALL)
    assert found.facts["calendar_gaps"] == [{"after": "2011-02-25", "before": "2013-01-07", "days": 682}]
    assert any(line.startswith("no rows      2011-02-25 to 2013-01-07") for line in found.lines())


def test_a_folder_is_checked_as_a_file_is(tmp_path: Path) -> None:
    found = check_prices(LAYOUTS["a folder of one CSV per symbol"](truth(), tmp_path), SMALL)
    assert found.facts["format"] == "a folder of 3 files, CSV, one symbol, named after the file"
    (tmp_path / "IBM.csv").write_text("Date,Open,Close\n2020-01-02,1,-2\n")
    wrong = check_prices(tmp_path, SMALL)
    assert any("IBM.csv row 2, IBM: close is -2" in finding.sentence() for finding in wrong.findings)


def test_only_markets_have_prices() -> None:
    with pytest.raises(ConfigError, match="use it with env=trading"):
        check_for_trading(Path("x.csv"), GymConfig())
