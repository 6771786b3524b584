"""Whether series are judged is a setting; runs that are older than it read what they read then."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eigen2.config import load_config, validate
from eigen2.errors import DataError
from eigen2.market.check import check_file, read_prices
from eigen2.market.config import MarketConfig
from eigen2.market.load import load_market


def one_series_twice(directory: Path) -> Path:
    close = 75 * np.exp(np.cumsum(0.01 * np.random.default_rng(2).standard_normal((300, 2)), axis=0))
    days = pd.bdate_range("2015-01-01", periods=300, name="date")
    pd.DataFrame(close, days, ["A", "B"]).assign(C=close[:, 0]).to_csv(directory / "prices.csv")
    return directory / "prices.csv"


def test_a_file_that_the_user_knows_better_is_read(tmp_path: Path) -> None:
    path = one_series_twice(tmp_path)
    with pytest.raises(DataError, match="C: has the same prices as A"):
        read_prices(path)
    config = MarketConfig(
        data=str(path), judge_series=False, validation_days=20, holdout_days=20, features=("return_1",)
    )
    assert check_file(path, config) == []
    assert load_market(config, 0).symbols == ("A", "B", "C")


def test_a_stored_config_without_the_key_means_what_its_version_did() -> None:
    values = load_config(["env.data=sp20"]).model_dump(mode="json")
    assert values["env"].pop("judge_series") is True
    assert validate(values).env.judge_series is True  # type: ignore[union-attr]
    assert validate(values, stored=True).env.judge_series is False  # type: ignore[union-attr]
    values["env"]["judge_series"] = True
    assert validate(values, stored=True).env.judge_series is True  # type: ignore[union-attr]
