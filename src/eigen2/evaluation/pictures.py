"""What an evaluation on a market leaves for pictures: tables by day, and panels that say how they are drawn."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eigen2.evaluation.panels import Heat, Lines, Marks, Panel
from eigen2.evaluation.statistics import stationary_days
from eigen2.evaluation.tables import Columns
from eigen2.market.data import FloatArray, MarketData

if TYPE_CHECKING:
    from eigen2.evaluation.market import MarketEvaluation

BAND_DRAWS = 1_000
BAND_VALUES = 4_000_000
"""Days of all draws together, at most: longer splits are drawn less often."""
PRICED = 60
"""Symbols whose prices are kept beside their trades, those that were traded most."""


def stored_evaluation(days: int, symbols: int) -> int:
    """Bytes that an evaluation takes in a run, about: its weights, prices of what was traded, and the other series."""
    return 17_000 + days * (4 * symbols + 6 * min(symbols, PRICED) + 200)


def growth_band(log_returns: FloatArray, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """[day] and [day]: log growth between which 95 % of the histories lie that are made of the same days, drawn in
    blocks."""
    days = len(log_returns)
    draws = max(100, min(BAND_DRAWS, BAND_VALUES // days))
    paths = np.cumsum(log_returns[stationary_days(days, draws, generator)], axis=1)
    low, high = np.quantile(paths, [0.025, 0.975], axis=0)
    return low, high


def traded_prices(market: MarketData, first: int, last: int, trades: Columns | None) -> Columns | None:
    """Closes of the days [first, last) of the symbols that were traded most; None where nothing was."""
    if trades is None or not len(trades["symbol"]):
        return None
    names, counts = np.unique(trades["symbol"].astype(str), return_counts=True)
    most = names[np.argsort(-counts, kind="stable")][:PRICED]
    found: Columns = {"date": market.dates[first:last].astype("datetime64[D]")}
    for name in most:
        found[str(name)] = market.close[first:last, market.symbols.index(str(name))].astype(np.float32)
    return found


def series(found: "MarketEvaluation") -> dict[str, Columns]:
    """Tables by day: `returns` (daily log returns), `growth` (in per cent, with a band around the champion's), `weights`
    (the champion's share of equity in each symbol at the close), `trades` (its turnover and the positions it opened);
    `prices` of what it traded and its `fills`; `costs`: what it would have earned at others."""
    dates = found.dates.astype("datetime64[D]")
    shares = np.ascontiguousarray(found.backtest.weights[0].T)
    tables: dict[str, Columns] = {
        "returns": {"date": dates, **found.returns},
        "growth": {"date": dates, **_growth(found)},
        "weights": {"date": dates, **dict(zip(found.tradable, shares, strict=True))},
        "trades": {
            "date": dates,
            "turnover": found.backtest.turnover[0],
            "opened": found.backtest.opened[0],
        },
    }
    if found.prices is not None and found.trades_made is not None:
        kept = np.isin(found.trades_made["symbol"].astype(str), list(found.prices))
        tables |= {
            "prices": found.prices,
            "fills": {name: values[kept] for name, values in found.trades_made.items()},
        }
    if found.costs is not None:
        tables["costs"] = dict(found.costs.series())
    return tables


def panels(found: "MarketEvaluation") -> tuple[Panel, ...]:
    names = tuple(found.returns)
    band = "The band holds 95 % of bootstrap histories, made by drawing the champion's own days in blocks."
    shown: list[Panel] = [
        Lines("Growth, after costs", names, source="growth", x="date", unit="%", low="low", high="high", note=band),
        Lines("Drawdown", ("champion", "equal_weight"), source="returns", x="date", drawdown=True),
    ]  # fmt: skip
    if found.costs is not None:
        shown.append(
            Lines(
                "Return by cost per side", ("champion", "equal_weight"), source="costs", x="bp_per_side",
                unit="% over these days", note=found.costs.sentence,
            )
        )  # fmt: skip
    shown.append(Lines("Turnover", ("turnover",), source="trades", x="date", unit="of equity a day"))
    shown.append(Heat("Holdings", "weights", unit="share of equity"))
    if found.prices is not None:
        shown.append(Marks("Trades", "prices", "fills", told=("shares", "price", "reason"), unit="close"))
    return tuple(shown)


def data_card(market: MarketData) -> dict[str, object]:
    """What was evaluated on, for people."""

    def reach(name: str) -> str:
        days = market.split(name)
        return f"{market.dates[days.start]} to {market.dates[days.stop - 1]}, {days.days} days"

    return {
        "name": market.name,
        "symbols": len(market.symbols),
        "tradable": len(market.tradable),
        "frequency": market.frequency.name,
        "prices": "close only" if market.open is None else "open and close",
        **{name: reach(name) for name in ("train", "validation", "holdout")},
        "fingerprint": market.fingerprint,
    }


def _growth(found: "MarketEvaluation") -> dict[str, npt.NDArray[np.float64]]:
    paths = {name: np.cumsum(returns) for name, returns in found.returns.items()}
    if found.band is not None:
        paths |= dict(zip(("low", "high"), found.band, strict=True))
    return {name: 100.0 * np.expm1(path) for name, path in paths.items()}
