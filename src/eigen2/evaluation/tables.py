"""An evaluation on a market as tables that people open: equity, positions and trades."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from eigen2.envs.trading.trades import REASONS, Trades
from eigen2.market.data import FloatArray, MarketData

if TYPE_CHECKING:
    from eigen2.evaluation.market import MarketEvaluation

HELD = 1e-6
"""Share of equity from which a position is listed."""
Columns = dict[str, npt.NDArray[Any]]


def people_tables(evaluation: "MarketEvaluation") -> dict[str, Columns]:
    dates = evaluation.dates.astype("datetime64[D]")
    tables = {
        "equity": {"date": dates, **{name: growth(returns) for name, returns in evaluation.returns.items()}},
        "positions": _positions(evaluation, dates),
    }
    if evaluation.trades_made is not None:
        tables["trades"] = evaluation.trades_made
    return tables


def growth(log_returns: FloatArray) -> FloatArray:
    """What 1 at the first decision has become after each day."""
    grown: FloatArray = np.exp(np.cumsum(log_returns))
    return grown


def trade_table(trades: Trades, market: MarketData) -> Columns:
    """One row per trade of the first portfolio; money in units of the equity at the start."""
    own = trades.row == 0
    symbols = np.array([market.symbols[position] for position in market.tradable], dtype=object)
    shares, value = trades.shares[own], trades.value[own]
    with np.errstate(divide="ignore", invalid="ignore"):
        price = np.where(shares != 0.0, value / np.abs(shares), np.nan)
    return {
        "date": market.dates[trades.day[own]].astype("datetime64[D]"),
        "symbol": symbols[trades.symbol[own]],
        "side": np.where(shares > 0.0, "buy", "sell").astype(object),
        "shares": np.abs(shares),
        "price": price,
        "value": value,
        "cost": trades.cost[own],
        "reason": np.array(REASONS, dtype=object)[trades.reason[own]],
    }


def _positions(evaluation: "MarketEvaluation", dates: npt.NDArray[np.datetime64]) -> Columns:
    weights = evaluation.backtest.weights[0]
    day, symbol = np.nonzero(weights > HELD)
    return {
        "date": dates[day],
        "symbol": np.array(evaluation.tradable, dtype=object)[symbol],
        "weight": weights[day, symbol].astype(np.float64),
    }
