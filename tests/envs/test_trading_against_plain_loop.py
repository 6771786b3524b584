"""The vectorised core does what a plain loop over positions does, on messy markets and under every action rule."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore

RULES = [
    {"actions": "orders"},
    {"actions": "orders", "max_new_positions": 3, "position_fraction": 0.3, "max_holding_days": 4},
    {"actions": "orders", "position_fraction": 1.0, "settlement_days": 2, "fee_bp": 300.0},
    {"actions": "original", "threshold": 0.1, "max_holding_days": 6},
    {"actions": "weights"},
    {"actions": "weights", "fee_bp": 400.0, "slippage_bp": 100.0},
]


def random_actions(core: TradingCore, rng: np.random.Generator) -> np.ndarray:
    low, high = core.action_bounds
    return rng.uniform(low, high, (core.batch, *core.action_shape))


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("bars", [True, False], ids=["bars", "close-only"])
@pytest.mark.parametrize("target_fill", ["next_day", "same_close"])
def test_core_equals_a_plain_loop_over_positions(
    markets: ModuleType, plain: ModuleType, rules: dict[str, Any], bars: bool, target_fill: str
) -> None:
    market = markets.random_market(
        3, 60, 7, tradable=(0, 1, 3, 4, 6), volatility=0.08, bars=bars, unknown=0.1, delisted=0.4
    )
    config = TradingConfig(trading_days=30, delisting_penalty=0.25, target_fill=target_fill, **rules)
    batch = 6
    core, rng = TradingCore(market, config, batch), np.random.default_rng(5)
    starts, lengths = rng.integers(0, 10, batch), rng.integers(5, 20, batch)
    core.reset(starts, lengths)
    loops = [plain.PlainTrading(market, config) for _ in range(batch)]
    for loop, start, days in zip(loops, starts, lengths, strict=True):
        loop.reset(int(start), int(days))
    while not core.done.all():
        action = random_actions(core, rng)
        step = core.step(action)
        for row, loop in enumerate(loops):
            reward = 0.0 if loop.done else loop.step(action[row])
            shares = np.zeros(core.symbols)
            for symbol, position in loop.positions.items():
                shares[symbol] = position.shares
            np.testing.assert_allclose(core.shares[row], shares, rtol=1e-10, atol=1e-14)
            assert core.cash[row] == pytest.approx(loop.cash, abs=1e-11)
            assert core.equity[row] == pytest.approx(loop.equity, abs=1e-11)
            assert core.books.costs[row] == pytest.approx(loop.costs, abs=1e-11)
            assert step.reward[row] == pytest.approx(reward, abs=1e-11)
            assert step.terminated[row] == loop.done
