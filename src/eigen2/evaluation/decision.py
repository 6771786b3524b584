"""What a champion does next: its orders or weights for the day after the last one it has seen.

Nothing after that day is looked at: prices are cut there before anything is computed. The champion's own portfolio is
found by playing it, from the start of the days on which it is evaluated, through the same core as every evaluation.
Episodes are as long as the evaluation's and follow each other; holdings stay, only the clock starts again.

Tomorrow's prices are not known. Weights, shares and costs are therefore what the core makes of the champion's action on
a day on which no price has changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.envs.trading.portfolios import Portfolios
from eigen2.envs.trading.trades import REASONS, Trades
from eigen2.errors import ConfigError
from eigen2.evaluation.backtest import Policy
from eigen2.evaluation.calendar import day_after, named_day
from eigen2.evaluation.decision_table import decision_table
from eigen2.evaluation.holdings import read_holdings
from eigen2.evaluation.result import Decision, Question
from eigen2.market.check import read_prices, rules_of
from eigen2.market.continuation import continued, prices_of, with_prices
from eigen2.market.data import MarketData, Split
from eigen2.market.prices import Prices

CAPITAL = 10_000.0
PolicyOf = Callable[[MarketData], Policy]
"""The champion's policy on a market that may have other days than the one it was trained on."""


def decide(market: MarketData, config: TradingConfig, policy_of: PolicyOf, question: Question) -> Decision:
    """`market` is what the champion was trained and evaluated on, `config` its rules."""
    known = market
    if question.data is not None:
        known = continued(market, read_prices(question.data, rules_of(config))[0], str(question.data))
    day = named_day(known, question.date)
    core, notes = _replayed(market, known, config, policy_of, day)
    capital, held = CAPITAL if question.capital is None else question.capital, "replay"
    if question.holdings is not None:
        capital, said = read_holdings(question.holdings, core, question.capital)
        held, notes = str(question.holdings), [*notes, *said]
    if not (np.isfinite(capital) and capital > 0.0):
        raise ConfigError(f"--capital is {capital:g}; it must be positive")
    since = evaluated_window(market, known, day).start
    return _decided(core, policy_of(core.market), known, day, since, capital, held, notes)


def seen_until(market: MarketData, day: int) -> MarketData:
    """The market as it is known after the close of `day`, and one more day on which every price stays where it is."""
    prices = prices_of(market).rows(0, day + 1)
    still = np.where(prices.mask[day], prices.close[day], np.nan)
    more = {
        name: np.zeros_like(still) if name == "volume" else np.where(np.isnan(array[day]), np.nan, still)
        for name, array in prices.arrays().items()
    }
    arrays = {name: np.concatenate([array, more[name][None]]) for name, array in prices.arrays().items()}
    dates = np.append(prices.dates, prices.dates[-1] + np.timedelta64(1, "D"))
    return with_prices(market, Prices(dates, prices.symbols, **arrays))


def _replayed(
    trained: MarketData, known: MarketData, config: TradingConfig, policy_of: PolicyOf, day: int
) -> tuple[TradingCore, list[str]]:
    """A core that holds what the champion holds after the close of `day`."""
    window = evaluated_window(trained, known, day)
    core = TradingCore(seen_until(known, day), config, 1)
    trading_days = window.days - 1 - core.settlement_days
    if trading_days < 1:
        raise ConfigError(
            f"{window.name} has {window.days} days, too few for {core.settlement_days} settlement days"
        )
    policy = policy_of(core.market)
    observation = core.reset(window.start, trading_days, beyond=True)
    while core.books.day[0] < day:
        observation = core.step(policy(observation, core.market, core.config)).observation
        if core.done[0]:
            observation = core.renew(trading_days)
    notes = []
    if core.books.day[0] >= core.books.last_decision[0]:
        left = int(core.books.end[0] - day)
        notes.append(
            f"the episode is in settlement: nothing is opened for {left} day{'' if left == 1 else 's'}"
        )
    return core, notes


def evaluated_window(trained: MarketData, known: MarketData, day: int) -> Split:
    """The days on which the champion is evaluated and among which, or after which, `day` lies."""
    for window in (trained.holdout, trained.validation):
        if day >= window.start:
            return window
    first, last = known.dates[trained.validation.start], known.dates[-1]
    raise ConfigError(
        f"{known.dates[day]} is one of the days the champion was trained on; choose one from {first} to {last}"
    )


@dataclass(frozen=True)
class _Step:
    """Books before and after the day on which nothing changes, per unit of equity before."""

    before: Portfolios
    after: Portfolios
    trades: Trades
    action: npt.NDArray[np.floating]


def _stepped(core: TradingCore, policy: Policy) -> _Step:
    state = core.state_dict()
    action = policy(core.observe(), core.market, core.config)
    log = core.record_trades()
    core.step(action)
    return _Step(Portfolios(**state), core.books, log.trades(), np.asarray(action[0]))


def _decided(
    core: TradingCore,
    policy: Policy,
    known: MarketData,
    day: int,
    since: int,
    capital: float,
    held: str,
    notes: list[str],
) -> Decision:
    start, settled = int(core.books.start[0]), bool(core.books.day[0] >= core.books.last_decision[0])
    step = _stepped(core, policy)
    unit = capital / float(step.before.equity[0])
    for_date, certain = day_after(known, day)
    rows = [_row(core, known, step, unit, day, symbol) for symbol in range(core.symbols)]
    facts: dict[str, Any] = {
        "as_of": str(known.dates[day]),
        "for_date": str(for_date),
        "for_date_known": certain,
        "fills_at": "the open" if known.open is not None else "the close",
        "actions": core.config.actions,
        "capital": capital,
        "positions_from": held,
        "replayed_from": str(known.dates[since]),
        "episode_began": str(known.dates[start]),
        "settlement": settled,
        "cash_now": float(step.before.cash[0] / step.before.equity[0]),
        "cash_target": float(step.after.cash[0] / step.after.equity[0]),
        "cost": sum(row["cost"] for row in rows),
        "data_fingerprint": known.fingerprint,
        "notes": notes,
        "decisions": rows,
    }
    if core.config.actions == "weights":
        facts["cash_logit"] = float(step.action[-1])
    shown = [row for row in rows if row["action"] != "none"]
    return Decision(facts, decision_table(facts, shown), shown)


def _row(
    core: TradingCore, known: MarketData, step: _Step, unit: float, day: int, symbol: int
) -> dict[str, Any]:
    before, after = step.before, step.after
    column = int(core.market.tradable[symbol])
    priced = np.flatnonzero(known.mask[: day + 1, column])
    own = step.trades.symbol == symbol
    bought = float(step.trades.shares[own].sum()) * unit
    now, target = (float(books.shares[0, symbol]) * unit for books in (before, after))
    moved = np.flatnonzero(own)
    reason = REASONS[int(step.trades.reason[moved[-1]])] if moved.size else ""
    row: dict[str, Any] = {
        "symbol": known.symbols[column],
        "action": "write off" if reason == "delisted" else _word(bought, now, target),
        "reason": reason,
        "at": "close" if reason == "time limit" or known.open is None else "open",
        "weight_now": float(before.value[0, symbol] / before.equity[0]),
        "weight_target": float(after.value[0, symbol] / after.equity[0]),
        "shares_now": now,
        "shares_target": target,
        "shares": bought,
        "value": float((np.sign(step.trades.shares[own]) * step.trades.value[own]).sum()) * unit,
        "cost": float(step.trades.cost[own].sum()) * unit,
        "price": float(known.close[priced[-1], column]) if priced.size else None,
        "price_date": str(known.dates[priced[-1]]) if priced.size else None,
    }
    if core.config.actions == "weights":
        return row | {"logit": float(step.action[symbol])}
    holding = after if target > 0.0 else before
    open_ = target > 0.0 or now > 0.0
    return row | {
        "coefficient": float(step.action[symbol, 0]),
        "sale_target": float(step.action[symbol, 1]),
        "entry_price": float(holding.entry[0, symbol]) if open_ else None,
        "entry_date": _entry_date(known, int(holding.entry_day[0, symbol]), day) if open_ else None,
        "sell_at": float(holding.target[0, symbol]) if open_ else None,
    }


def _entry_date(known: MarketData, entry: int, day: int) -> str:
    return str(known.dates[entry]) if entry <= day else str(day_after(known, day)[0])


def _word(bought: float, now: float, target: float) -> str:
    if bought > 0.0:
        return "buy"
    if bought < 0.0:
        return "sell"
    return "hold" if now > 0.0 or target > 0.0 else "none"
