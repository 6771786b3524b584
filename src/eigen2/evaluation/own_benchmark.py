"""A benchmark of the user's own: portfolio weights by date, from a CSV file.

Layouts: `date, SYM1, SYM2, ...`; `date, symbol, weight`; or `symbol, weight` alone, for weights that never change. What is
missing to one is cash. The weights of a date are wanted from its close on until the next date, and traded at the fill
of the day after, as a champion's are; in between they are restored daily.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import Observation
from eigen2.envs.trading.weights import LOGIT_BOUND
from eigen2.errors import DataError
from eigen2.evaluation.backtest import Strategy
from eigen2.market.data import FloatArray, MarketData

NAME = "own"
SMALLEST = float(np.exp(-2 * LOGIT_BOUND))
"""Weights relative to the largest one below which a softmax of bounded logits cannot go: they count as nothing."""


def own_benchmark(file: Path, market: MarketData, config: TradingConfig) -> Strategy:
    dates, weights = read_weights(file, market)
    logits = _logits(weights)

    def policy(
        observation: Observation, market: MarketData, config: TradingConfig
    ) -> npt.NDArray[np.float64]:
        today = market.dates[observation.day]
        row = np.searchsorted(dates, today, side="right") - 1
        return logits[row + 1]

    rules = config.model_copy(update={"actions": "weights", "reward": "log_equity"})
    return Strategy(NAME, rules, policy)


def read_weights(file: Path, market: MarketData) -> tuple[npt.NDArray[np.datetime64], FloatArray]:
    """Dates, and weights [date, tradable]; before the first date everything is cash."""
    table = _wide(file)
    names = [market.symbols[position] for position in market.tradable]
    if unknown := [name for name in table.columns if name not in names]:
        raise DataError(f"{file} has weights of {', '.join(unknown[:3])}, which cannot be traded here")
    weights = table.reindex(columns=names).fillna(0.0).to_numpy(float)
    bad = ~np.isfinite(weights).all(axis=1) | (weights < 0.0).any(axis=1) | (weights.sum(axis=1) > 1.0 + 1e-6)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"{file}, {table.index[row]:%Y-%m-%d}: weights must not be negative and add up to at most 1, and they add up to "
            f"{weights[row].sum():g}"
        )
    return table.index.to_numpy("datetime64[D]"), weights


def _wide(file: Path) -> pd.DataFrame:
    """Weights by date and symbol, ascending."""
    try:
        table = pd.read_csv(file, skipinitialspace=True)
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read as weights ({str(error).splitlines()[0]})") from error
    small = {str(name).strip().lower(): name for name in table.columns}
    if "date" not in small:
        if {"symbol", "weight"} - set(small):
            raise DataError(f"{file} needs a column date, or the columns symbol and weight")
        table["date"] = "1800-01-01"
        small["date"] = "date"
    table[small["date"]] = pd.to_datetime(table[small["date"]], errors="coerce", format="ISO8601")
    if table[small["date"]].isna().any():
        row = int(table[small["date"]].isna().to_numpy().argmax())
        raise DataError(f"{file} row {row + 2}: the date cannot be read; write it as 2024-01-31")
    if {"symbol", "weight"} <= set(small):
        keys = [small["date"], small["symbol"]]
        if table.duplicated(keys).any():
            raise DataError(f"{file} gives two weights for one symbol on one date")
        table = table.pivot(index=small["date"], columns=small["symbol"], values=small["weight"])
    else:
        table = table.set_index(small["date"])
    if table.index.duplicated().any():
        raise DataError(f"{file} has {table.index[table.index.duplicated()][0]:%Y-%m-%d} twice")
    table.columns = [str(name).strip() for name in table.columns]
    numbers: pd.DataFrame = table.apply(pd.to_numeric, errors="coerce")
    return numbers.sort_index()


def _logits(weights: FloatArray) -> FloatArray:
    """[1 + date, tradable + 1] whose softmax the weights are, cash last; the first row is all cash."""
    whole = np.vstack([np.zeros(weights.shape[1]), weights])
    whole = np.concatenate([whole, 1.0 - whole.sum(axis=1, keepdims=True)], axis=1)
    largest = whole.max(axis=1, keepdims=True)
    logits: FloatArray = LOGIT_BOUND + np.log(np.maximum(whole / largest, SMALLEST))
    return logits
