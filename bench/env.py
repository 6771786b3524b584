"""Speed of the trading core: portfolio-steps per CPU second against a plain loop of the same rules.

256 portfolios, 108 tradable of 669 symbols, random actions prepared beforehand; building the compact observation is
part of the measured step. Episodes are repeated and the fastest counts, for both sides: other load on the machine
only ever slows a repetition down.
"""

import json
import time

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.market.data import MarketData
from plain_trading import PlainTrading
from small_markets import random_market

BATCH, DAYS, SYMBOLS, TRADABLE = 256, 3888, 669, range(8, 116)
FIRST_DAY = 504
REPETITIONS = 5
PLAIN_EPISODES = 2
WANTED = 200_000
Actions = list[npt.NDArray[np.float32]]


def prepared_actions(core: TradingCore, rng: np.random.Generator, exits: bool) -> Actions:
    """A pool of uniform random actions; without exits no coefficient is negative, so that portfolios stay full."""
    low, high = core.action_bounds
    if not exits:
        low = np.maximum(low, 0.0)
    shape = (core.batch, *core.action_shape)
    return [(low + (high - low) * rng.random(shape, np.float32)).astype(np.float32) for _ in range(50)]


def core_speed(core: TradingCore, actions: Actions, starts: npt.NDArray[np.int64]) -> float:
    """Portfolio-steps per CPU second of the fastest repetition."""
    fastest = float("inf")
    for _ in range(REPETITIONS):
        core.reset(starts)
        began = time.process_time()
        for step in range(core.episode_steps):
            core.step(actions[step % len(actions)])
        fastest = min(fastest, time.process_time() - began)
    return core.batch * core.episode_steps / fastest


def plain_speed(
    market: MarketData, config: TradingConfig, actions: Actions, starts: npt.NDArray[np.int64]
) -> float:
    """Steps per CPU second of one portfolio in the plain loop, fastest of a few episodes."""
    loop, fastest, steps = PlainTrading(market, config), float("inf"), 0
    for row in range(PLAIN_EPISODES):
        loop.reset(int(starts[row]), config.trading_days)
        began, steps = time.process_time(), 0
        while not loop.done:
            loop.step(actions[steps % len(actions)][row])
            steps += 1
        fastest = min(fastest, time.process_time() - began)
    return steps / fastest


def main() -> None:
    market = random_market(0, DAYS, SYMBOLS, tuple(TRADABLE))
    rng = np.random.default_rng(1)
    starts = rng.integers(FIRST_DAY, DAYS - 200, BATCH)
    result: dict[str, float | int | bool] = {"batch": BATCH, "symbols": SYMBOLS, "tradable": len(TRADABLE)}
    print(f"{'rules':<24}{'core steps/cpu s':>18}{'plain loop':>14}{'ratio':>10}")
    cases = [("orders", "orders", True), ("orders_full", "orders", False), ("original", "original", True)]
    for name, rule, exits in [*cases, ("weights", "weights", True)]:
        config = TradingConfig.model_validate({"actions": rule})
        core = TradingCore(market, config, BATCH)
        actions = prepared_actions(core, rng, exits)
        fast = core_speed(core, actions, starts)
        slow = plain_speed(market, config, actions, starts)
        print(f"{name:<24}{fast:>18,.0f}{slow:>14,.0f}{fast / slow:>9.0f}x")
        result[f"{name}_steps_per_cpu_second"] = round(fast)
        result[f"{name}_plain_steps_per_cpu_second"] = round(slow)
        result[f"{name}_ratio"] = round(fast / slow, 1)
    print(
        "orders: random exits; orders_full: all slots taken, no exits by choice; observation building included"
    )
    result["steps_per_cpu_second"] = result["orders_steps_per_cpu_second"]
    result["passed"] = result["steps_per_cpu_second"] >= WANTED
    print(json.dumps(result))


if __name__ == "__main__":
    main()
