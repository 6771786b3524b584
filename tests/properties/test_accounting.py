"""What must hold for every market, every configuration and every sequence of actions."""

import runpy
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.market.data import MarketData

random_market = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "small_markets.py"))["random_market"]

seeds = st.integers(0, 2**32 - 1)
market_kinds = st.fixed_dictionaries(
    {
        "volatility": st.sampled_from([0.005, 0.05, 0.3]),
        "bars": st.booleans(),
        "unknown": st.sampled_from([0.0, 0.05, 0.4]),
        "delisted": st.sampled_from([0.0, 0.5]),
    }
)
rules = st.fixed_dictionaries(
    {
        "actions": st.sampled_from(["orders", "original", "weights"]),
        "max_new_positions": st.integers(1, 3),
        "position_fraction": st.sampled_from([0.05, 0.1, 0.34, 0.5, 1.0]),
        "max_holding_days": st.integers(1, 8),
        "settlement_days": st.integers(0, 8),
        "threshold": st.sampled_from([0.0, 0.5]),
        "delisting_penalty": st.sampled_from([0.0, 0.1, 1.0]),
    }
)
costs = st.sampled_from([0.0, 1.0, 5.0, 30.0, 400.0])
DAYS, SYMBOLS, TRADING_DAYS = 40, 6, 20


def make_core(
    seed: int,
    kind: dict[str, Any],
    rule: dict[str, Any],
    batch: int = 1,
    fee_bp: float = 10.0,
    slippage_bp: float = 5.0,
    market: MarketData | None = None,
) -> TradingCore:
    market = market or random_market(seed, DAYS, SYMBOLS, **kind)
    config = TradingConfig(trading_days=TRADING_DAYS, fee_bp=fee_bp, slippage_bp=slippage_bp, **rule)
    return TradingCore(market, config, batch)


def actions_for(core: TradingCore, seed: int, steps: int) -> list[np.ndarray]:
    low, high = core.action_bounds
    rng = np.random.default_rng(seed)
    return [rng.uniform(low, high, (core.batch, *core.action_shape)).astype(np.float32) for _ in range(steps)]


def play(
    core: TradingCore, start: int | list[int] | np.ndarray, actions: list[np.ndarray]
) -> list[dict[str, Any]]:
    """The trace of an episode, as a list of dictionaries of arrays."""
    trace = [vars(core.reset(start))]
    for action in actions:
        step = core.step(action)
        numbers = {name: value for name, value in vars(step).items() if name != "observation"}
        trace.append({**numbers, **vars(step.observation), **core.state_dict()})
    return trace


def assert_identical(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name, strict=True)


@given(seeds, market_kinds, rules, costs, costs)
@settings(max_examples=50, deadline=None)
def test_the_books_balance_after_every_step(
    seed: int, kind: dict[str, Any], rule: dict[str, Any], fee_bp: float, slippage_bp: float
) -> None:
    core = make_core(seed, kind, rule, batch=3, fee_bp=fee_bp, slippage_bp=slippage_bp)
    core.reset([0, 3, 7])
    books = core.books
    for action in actions_for(core, seed, core.episode_steps):
        before = books.equity.copy()
        step = core.step(action)
        scale = 1e-9 * np.maximum(1.0, books.equity)
        assert (np.abs(books.cash + books.value.sum(axis=1) - books.equity) <= scale).all()
        assert (np.abs(1.0 + books.pnl - books.costs - books.equity) <= scale).all()
        assert (books.cash >= 0.0).all()
        assert (books.shares >= 0.0).all()
        assert (books.costs >= 0.0).all()
        alive = (before > 1e-9) & (books.equity > 1e-9)
        np.testing.assert_allclose(
            step.reward[alive], np.log(books.equity[alive] / before[alive]), atol=1e-12
        )
        assert all(np.isfinite(values).all() for values in vars(step.observation).values())
        assert np.isfinite(step.contribution).all()
    assert step.terminated.all()


@given(seeds, market_kinds, rules, costs, costs)
@settings(max_examples=50, deadline=None)
def test_more_costs_never_raise_equity(
    seed: int, kind: dict[str, Any], rule: dict[str, Any], some: float, more: float
) -> None:
    cheap = make_core(seed, kind, rule, fee_bp=min(some, more), slippage_bp=0.0)
    dear = make_core(seed, kind, rule, fee_bp=min(some, more), slippage_bp=max(some, more))
    actions = actions_for(cheap, seed, cheap.episode_steps)
    for left, right in zip(play(cheap, 2, actions), play(dear, 2, actions), strict=True):
        if "equity" in left:
            assert right["equity"] <= left["equity"] * (1 + 1e-12)
            assert right["cash"] <= left["cash"] + 1e-12 * left["equity"]
            assert (right["shares"] <= left["shares"] * (1 + 1e-12) + 1e-15).all()


@given(seeds, market_kinds, rules, st.integers(1, TRADING_DAYS - 1))
@settings(max_examples=50, deadline=None)
def test_changing_every_price_after_a_day_changes_nothing_up_to_it(
    seed: int, kind: dict[str, Any], rule: dict[str, Any], steps: int
) -> None:
    market = random_market(seed, DAYS, SYMBOLS, **kind)
    start = 4
    last = start + steps
    other = random_market(seed + 1, DAYS, SYMBOLS, **{**kind, "unknown": 0.3})
    spliced = {}
    for name in ("close", "open", "high", "mask", "features"):
        values = getattr(market, name)
        if values is not None:
            spliced[name] = np.concatenate([values[: last + 1], getattr(other, name)[last + 1 :]])
    changed = type(market)(
        **{field.name: spliced.get(field.name, getattr(market, field.name)) for field in fields(market)}
    )
    core = make_core(seed, kind, rule, market=market)
    actions = actions_for(core, seed, steps)
    true_past = play(core, start, actions)
    changed_future = play(make_core(seed, kind, rule, market=changed), start, actions)
    for left, right in zip(true_past, changed_future, strict=True):
        assert_identical(left, right)


@given(seeds, market_kinds, rules)
@settings(max_examples=20, deadline=None)
def test_a_batch_of_portfolios_equals_each_of_them_alone(
    seed: int, kind: dict[str, Any], rule: dict[str, Any]
) -> None:
    batch = make_core(seed, kind, rule, batch=5)
    starts, lengths = np.array([0, 1, 5, 5, 9]), np.array([20, 3, 7, 20, 11])
    actions = actions_for(batch, seed, batch.episode_steps)
    batch.reset(starts, lengths)
    together = [(batch.step(action), batch.state_dict()) for action in actions]
    for row in range(5):
        alone = make_core(seed, kind, rule, market=batch.market)
        alone.reset(starts[row], lengths[row])
        for action, (step, state) in zip(actions, together, strict=True):
            single = alone.step(action[row : row + 1])
            pairs = {**vars(step), **vars(step.observation), **state}
            own = {**vars(single), **vars(single.observation), **alone.state_dict()}
            pairs.pop("observation")
            own.pop("observation")
            assert_identical({name: values[row : row + 1] for name, values in pairs.items()}, own)


@given(seeds, market_kinds, rules, st.integers(0, 19))
@settings(max_examples=50, deadline=None)
def test_a_core_restored_in_mid_episode_continues_bit_for_bit(
    seed: int, kind: dict[str, Any], rule: dict[str, Any], pause: int
) -> None:
    core = make_core(seed, kind, rule, batch=2)
    actions = actions_for(core, seed, core.episode_steps)
    whole = play(core, [1, 6], actions)
    core.reset([1, 6])
    for action in actions[:pause]:
        core.step(action)
    restored = make_core(seed, kind, rule, batch=2)
    restored.load_state_dict(core.state_dict())
    for action, expected in zip(actions[pause:], whole[pause + 1 :], strict=True):
        step = restored.step(action)
        numbers = {name: value for name, value in vars(step).items() if name != "observation"}
        assert_identical({**numbers, **vars(step.observation), **restored.state_dict()}, expected)
