"""Wide markets are worked on in tiles: what is computed does not depend on them."""

import numpy as np
import pytest
import torch

from eigen2 import seeds
from eigen2.algorithms.erl import market_networks
from eigen2.algorithms.erl.market import MarketTask
from eigen2.algorithms.erl.market_networks import agents_at_a_time
from eigen2.algorithms.erl.trainer import ERLTrainer
from eigen2.envs.config import TradingConfig
from eigen2.market.load import load_market
from eigen2.nets.stacked import flatten
from eigen2.nets.tiles import RowTiles
from eigen2.replay import Replay

SYMBOLS = 41
ENV = {
    "data": "random_walk", "synthetic": {"days": 160, "symbols": SYMBOLS, "seed": 1}, "features": ("return_1", "return_3"),
    "window": 16, "validation_days": 20, "holdout_days": 20, "embargo_days": 2, "trading_days": 8, "settlement_days": 3,
}  # fmt: skip
CONTEXT = tuple(f"S{number:02d}" for number in range(1, 8))
CPU = torch.device("cpu")


@pytest.fixture
def wide(monkeypatch):
    """From here on every market counts as wide."""
    return lambda: monkeypatch.setattr(market_networks, "KEPT_CELLS", 0)


@pytest.fixture(params=[("orders", 0, ()), ("orders", 2, CONTEXT), ("weights", 0, CONTEXT)], ids=str)
def make(request, alg):
    """make(rows in a tile, **alg) -> a task"""
    actions, layers, context = request.param
    env = TradingConfig.model_validate(ENV | {"actions": actions, "context": context})
    market = load_market(env, 1)

    def task(rows, **changes):
        chosen = alg(
            encoder_layers=layers, hidden=32, direct_steps=2, direct_runs=3, direct_days=4, **changes
        )
        made = MarketTask(market, env, chosen, CPU)
        made.tiles = RowTiles(rows, made.tiles.numbers)
        return made

    return task


def test_episodes_are_played_with_the_same_bits_in_tiles_as_in_one_piece(make, wide):
    task = make(5)
    actors = task.init_actor(5, torch.Generator().manual_seed(0))
    starts = task.draw_episodes(3, np.random.default_rng(0))
    days = np.arange(40, 83)
    whole, lookup = task.project_days(actors, days)
    played = task.rollout(actors, starts, record=True)
    wide()
    cut, again = task.project_days(actors, days)
    assert torch.equal(cut, whole)
    assert torch.equal(again, lookup)
    in_tiles = task.rollout(actors, starts, record=True)
    np.testing.assert_array_equal(in_tiles.returns, played.returns)
    for name, column in played.transitions[0].steps.items():
        np.testing.assert_array_equal(in_tiles.transitions[0].steps[name], column)


def trained(task):
    """All weights and losses after two generations of evolution, critics, actors and the direct gradient."""
    replay = Replay(task.schema(), 1000, seeds.integer(3, "replay"))
    trainer = ERLTrainer(task, task.alg, replay, 3)
    losses = [trainer.step() for _ in range(2)]
    assert trainer.learners is not None
    return [flatten(trainer.actors), flatten(trainer.learners.critic)], losses


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_training_is_bit_identical_for_every_tile(make, wide, rows):
    wide()
    weights, losses = trained(make(1000))
    others, other_losses = trained(make(rows))
    assert all(map(torch.equal, others, weights))
    assert other_losses == losses


def test_training_in_tiles_is_training_in_one_piece_up_to_rounding(make, wide):
    weights, losses = trained(make(5))
    wide()
    others, other_losses = trained(make(5))
    for ours, theirs in zip(others, weights, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(other_losses, losses, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-4)


def test_agents_are_never_alone_in_a_group():
    for agents in range(1, 12):
        groups = agents_at_a_time(agents, 2)
        assert [agent for group in groups for agent in range(agents)[group]] == list(range(agents))
        assert min(group.stop - group.start for group in groups) >= min(2, agents)
