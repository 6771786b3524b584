"""The direct gradient keeps the same books as the real trading core, and its gradient is the true one."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from eigen2.algorithms.erl.direct import DirectGradient
from eigen2.algorithms.erl.market import MarketTask
from eigen2.envs.trading import TradingCore
from eigen2.envs.trading.costs import CostModel
from eigen2.envs.trading.price_tables import price_tables
from eigen2.nets.stacked import take

RUNS = 6


def with_opens(task):
    """The same market with opens between the closes, so that nights and days both count."""
    market, rng = task.market, np.random.default_rng(0)
    before = np.vstack([market.close[:1], market.close[:-1]])
    opens = np.sqrt(before * market.close) * np.exp(rng.normal(0.0, 0.004, market.close.shape))
    bars = replace(market, open=opens, high=np.maximum(opens, market.close))
    return MarketTask(bars, task.env, task.alg, task.device)


@pytest.fixture(params=["close only", "open and close"])
def world(request, alg, market_task, filled):
    """world(fee) -> task, a trading actor, and a replay of its whole episodes."""

    def build(fee_bp):
        task = market_task(alg(encoder_layers=1), actions="weights", fee_bp=fee_bp, slippage_bp=0.0)
        if request.param == "open and close":
            task = with_opens(task)
        actor = task.init_actor(1, torch.Generator().manual_seed(0))
        actor["head.out.w"] *= 3.0  # strong opinions, so that it trades
        return task, actor, filled(task, actor, episodes=8)

    return build


def loss_of(direct, actor, replay, days):
    return direct.loss(actor, direct.draw(replay, RUNS, days), slice(0, RUNS))


def real_growth(task, replay, runs, length):
    """Mean daily log growth in per cent when the recorded actions go through the core, with one more night."""
    drawn = replay.sample_sequences(runs, length).clone()
    core = TradingCore(task.market, task.env, runs)
    core.reset(drawn.observation["day"][0].numpy())
    rewards = sum(core.step(action.numpy()).reward for action in drawn.step["action"])
    tables = price_tables(task.market)
    end = core.books.day
    held = core.books.value / core.equity[:, None]
    night = np.log1p((held * (tables.fill[end + 1] / tables.mark[end] - 1.0)).sum(axis=1))
    return 100.0 * float((rewards + night).mean()) / length


@pytest.mark.parametrize(("fee_bp", "tolerance"), [(0.0, 2e-5), (15.0, 1e-3)])
def test_the_loss_is_minus_the_real_cores_log_growth(world, copy_of, fee_bp, tolerance):
    task, actor, replay = world(fee_bp)
    days = task.env.trading_days
    loss = loss_of(DirectGradient(task), actor, copy_of(replay), days)
    growth = real_growth(task, replay, RUNS, days)
    assert abs(growth) > 5 * tolerance
    assert float(loss[0]) == pytest.approx(-growth, abs=tolerance)


def test_costs_lower_the_growth(world, copy_of):
    task, actor, replay = world(0.0)
    free = DirectGradient(task)
    dear = DirectGradient(task)
    dear.costs = CostModel(0.01)
    days = task.env.trading_days
    paid = float(loss_of(dear, actor, copy_of(replay), days) - loss_of(free, actor, copy_of(replay), days))
    assert paid > 0.01


def directional(direct, actor, replay, copy_of, direction, step):
    def at(distance):
        moved = {name: value + distance * direction[name] for name, value in actor.items()}
        return float(loss_of(direct, moved, copy_of(replay), 8).sum())

    return (at(step) - at(-step)) / (2 * step)


@pytest.mark.parametrize("actions", ["weights", "orders"])
def test_the_gradient_agrees_with_finite_differences(alg, market_task, filled, copy_of, actions):
    task = market_task(alg(encoder_layers=1), actions=actions)
    actor = task.init_actor(1, torch.Generator().manual_seed(0))
    replay = filled(task, actor, episodes=8)
    direct = DirectGradient(task)
    leaves = {name: value.clone().requires_grad_(True) for name, value in actor.items()}
    loss = loss_of(direct, leaves, copy_of(replay), 8)
    gradient = dict(zip(leaves, torch.autograd.grad(loss.sum(), list(leaves.values())), strict=True))
    length = torch.sqrt(sum(value.square().sum() for value in gradient.values()))
    uphill = {name: value / length for name, value in gradient.items()}
    measured = directional(direct, actor, replay, copy_of, uphill, 5e-3)
    assert measured == pytest.approx(float(length), rel=0.05)


def test_each_agents_loss_is_its_own(alg, market_task, filled, copy_of):
    task = market_task(alg(), actions="weights")
    actors = task.init_actor(3, torch.Generator().manual_seed(0))
    replay = filled(task, take(actors, [0]), episodes=8)
    direct = DirectGradient(task)
    together = loss_of(direct, actors, copy_of(replay), 8)
    for agent in range(3):
        alone = loss_of(direct, take(actors, [agent]), copy_of(replay), 8)
        torch.testing.assert_close(alone[0], together[agent], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("actions", "kept"), [("original", 1.0), ("orders", 0.0067)])
def test_only_learned_exits_sell_what_the_agent_rejects(alg, market_task, actions, kept):
    direct = DirectGradient(market_task(alg(), actions=actions, target_fill="same_close"))
    held = torch.full((1, 1, 4), 0.05)
    wanted = direct._wanted(torch.full((1, 1, 4, 2), -1.0), held)
    assert (wanted / held).numpy() == pytest.approx(np.full((1, 1, 4), kept), abs=1e-3)
