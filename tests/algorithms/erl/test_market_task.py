"""Agents on a market: symbols have no order, the cache of days decides like the batch, and recordings are complete."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from eigen2.algorithms.erl.market import MarketTask
from eigen2.nets.stacked import take

AGENTS = 2


def reordered(task, order):
    """The same task with its symbols in another order."""
    market = task.market
    moved = replace(
        market,
        symbols=tuple(market.symbols[i] for i in order),
        close=market.close[:, order],
        mask=market.mask[:, order],
        features=market.features[:, order],
    )
    return MarketTask(moved, task.env, task.alg, task.device)


@pytest.fixture(params=["weights", "orders"])
def task(request, alg, market_task):
    return market_task(alg(encoder_layers=2, n_step=1), actions=request.param)


@pytest.fixture
def networks(task):
    rng = torch.Generator().manual_seed(0)
    return task.init_actor(AGENTS, rng), task.init_critic(AGENTS, rng)


def test_reordering_symbols_reorders_actions_and_values(task, networks, filled):
    actor, critic = networks
    replay = filled(task, take(actor, [0]), noise=0.3)
    drawn = replay.sample(32).clone()
    order = np.array([2, 0, 3, 1])
    other = reordered(task, order)
    seen = drawn.observation
    moved = {**seen, "positions": seen["positions"][:, order]}
    action = drawn.step["action"]
    places = np.append(order, 4) if task.weights else order

    plain = task.policy(actor, task.state(seen))
    torch.testing.assert_close(
        other.policy(actor, other.state(moved)), plain[:, :, places], rtol=1e-4, atol=1e-5
    )
    values = task.value(critic, task.state(seen), action.unsqueeze(0))
    moved_values = other.value(critic, other.state(moved), action[:, places].unsqueeze(0))
    torch.testing.assert_close(moved_values, values[:, :, order], rtol=1e-4, atol=1e-5)


def test_what_was_played_is_what_the_network_decides_on_the_recorded_state(task, networks, filled):
    actor = take(networks[0], [0])
    replay = filled(task, actor)
    drawn = replay.sample(64).clone()
    decided = task.squash(task.policy(actor, task.state(drawn.observation)))[0]
    torch.testing.assert_close(decided, drawn.step["action"], rtol=1e-4, atol=1e-4)


def test_a_rollout_returns_the_sum_of_its_recorded_rewards(task, networks):
    starts = task.draw_episodes(3, np.random.default_rng(0))
    rollout = task.rollout(networks[0], starts, record=True)
    (chunk,) = rollout.transitions
    steps = task.env.trading_days + task.settlement_days
    assert chunk.steps["reward"].shape == (steps, AGENTS * 3)
    assert rollout.steps == steps * AGENTS * 3
    total = chunk.steps["reward"].astype(np.float64).sum(0).reshape(AGENTS, 3)
    np.testing.assert_allclose(rollout.returns, total, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(rollout.daily.sum(2), rollout.returns)
    assert chunk.steps["terminated"][-1].all()
    assert not chunk.steps["terminated"][:-1].any()


def test_episodes_stay_inside_their_split(task):
    length = task.env.trading_days + task.settlement_days
    drawn = task.draw_episodes(2_000, np.random.default_rng(0))
    train, validation = task.market.train, task.market.validation
    assert drawn.min() == train.start
    assert drawn.max() + length == train.stop - 1
    fixed = task.validation_episodes()
    assert (fixed >= validation.start).all()
    assert (fixed + length < validation.stop).all()
    np.testing.assert_array_equal(fixed, task.validation_episodes())


def test_validation_episodes_are_stitched_into_one_series_of_days(task, networks):
    rollout = task.rollout(networks[0], task.validation_episodes())
    trials = task.trials()
    days, stitched = trials.days, trials.stitch(rollout.daily)
    assert stitched.shape == (AGENTS, len(days))
    first = task.validation_episodes() - task.market.validation.start
    for column, day in enumerate(days):
        running = [
            (e, day - start) for e, start in enumerate(first) if 0 <= day - start < rollout.daily.shape[2]
        ]
        mean = np.mean([np.exp(rollout.daily[:, episode, step]) for episode, step in running], axis=0)
        np.testing.assert_allclose(stitched[:, column], np.log(mean), atol=1e-12)
    assert days.min() == 0
    assert days.max() < task.market.validation.days - 1
    trials.record(0, [rollout])
    assert trials.ledger.trials == AGENTS
    np.testing.assert_allclose(trials.ledger.returns, stitched, rtol=1e-6)


def test_an_untrained_agent_asks_for_every_symbol(task, networks):
    if task.weights:
        pytest.skip("weights are always asked for")
    seen = task._core(1).reset(np.array([task.market.train.start]), task.env.trading_days)
    actor = take(networks[0], [0])
    projected, lookup = task.project_days(actor, seen.day.astype(np.int64))
    coefficient = task.act_on(actor, projected, lookup[torch.as_tensor(seen.day).long()], seen)[
        ..., 0
    ].numpy()
    assert (coefficient > task.env.threshold).mean() > 0.5


def test_noise_comes_from_its_stream_and_stays_in_bounds(task, networks):
    starts = task.draw_episodes(3, np.random.default_rng(0))

    def played(seed):
        rollout = task.rollout(networks[0], starts, record=True, noise=0.5, rng=np.random.default_rng(seed))
        return rollout.transitions[0].steps["action"]

    np.testing.assert_array_equal(played(1), played(1))
    assert (played(1) != played(2)).any()
    limit = 10.0 if task.weights else 1.0
    assert np.abs(played(1)).max() <= limit
