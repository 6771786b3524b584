"""Who plays the episodes does not matter: not the process, not their number, not the order in which they finish."""

from functools import partial

import numpy as np
import pytest
import torch

from eigen2.envs.config import GymConfig
from eigen2.erl.gym import GymTask
from eigen2.erl.market import MarketTask
from eigen2.erl.task import agent_blocks
from eigen2.erl.workers import inline, processes

CPU = torch.device("cpu")


def task_maker(world, alg, market_task):
    """A function without arguments, importable in another process, that makes the task."""
    config = alg(explore_episodes=1, block=2)
    if world == "gym":
        return partial(GymTask, GymConfig(id="Pendulum-v1", max_episode_steps=20), config, 3, CPU)
    task = market_task(config, actions="weights")
    return partial(MarketTask, task.market, task.env, config, CPU)


def trained(trainer, task, play):
    one = trainer(task, play=play)
    metrics = [one.step() for _ in range(2)]
    weights = {name: value.clone() for name, value in one.actors.items()}
    return metrics, weights, one.best_weights(), one.lineage


def assert_same_run(first, second):
    assert first[0] == second[0]
    assert first[3] == second[3]
    for mine, others in zip(first[1:3], second[1:3], strict=True):
        assert all(torch.equal(mine[name], others[name]) for name in mine)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("world", "count"),
    [
        ("market", 2),
        pytest.param("market", 1, marks=SLOW),
        pytest.param("market", 3, marks=SLOW),
        pytest.param("gym", 1, marks=SLOW),
        pytest.param("gym", 2, marks=SLOW),
        pytest.param("gym", 3, marks=SLOW),
    ],
)
def test_any_number_of_worker_processes_gives_the_inline_run_bit_for_bit(
    world, count, alg, market_task, trainer
):
    build_task = task_maker(world, alg, market_task)
    task = build_task()
    expected = trained(trainer, task, inline(task))
    with processes(build_task, count, threads=1) as play:
        assert_same_run(trained(trainer, build_task(), play), expected)


def test_the_order_in_which_work_is_done_does_not_matter(alg, market_task, trainer):
    task = market_task(alg(explore_episodes=1, block=2), actions="orders")
    in_order = inline(task)

    def backwards(work):
        return reversed(list(in_order(work[::-1])))

    assert_same_run(trained(trainer, task, backwards), trained(trainer, task, in_order))


def test_blocks_cover_every_agent_once():
    for agents in range(1, 12):
        for size in range(1, 13):
            covered = [agent for block in agent_blocks(agents, size) for agent in range(agents)[block]]
            assert covered == list(range(agents))


def test_other_blocks_give_the_same_returns_up_to_rounding(alg, market_task):
    returns = []
    for block in (1, 6):
        task = market_task(alg(block=block, encoder_layers=2), actions="weights")
        actors = task.init_actor(6, torch.Generator().manual_seed(0))
        starts = task.draw_episodes(3, np.random.default_rng(1))
        parts = [
            task.rollout({name: value[one] for name, value in actors.items()}, starts).returns
            for one in agent_blocks(6, block)
        ]
        returns.append(np.concatenate(parts))
    np.testing.assert_allclose(returns[0], returns[1], rtol=1e-4, atol=1e-6)
