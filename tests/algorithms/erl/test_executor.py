"""Who plays the episodes does not matter: not the process, not their number, not the order in which they finish."""

import multiprocessing
import os
import signal
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from eigen2.algorithms.erl import executor
from eigen2.algorithms.erl.control import ControlTask
from eigen2.algorithms.erl.executor import RolloutTask, inline, processes
from eigen2.algorithms.erl.market import MarketTask
from eigen2.algorithms.erl.task import agent_blocks
from eigen2.envs.config import GymConfig
from eigen2.envs.control.catalogue import control_task
from eigen2.errors import MissingDataError, WorkersLostError

CPU = torch.device("cpu")


def task_maker(world, alg, market_task):
    """A function without arguments, importable in another process, that makes the task."""
    config = alg(explore_episodes=1, block=2)
    if world == "gym":
        env = control_task(GymConfig(id="Pendulum-v1", max_episode_steps=20))
        return partial(ControlTask, env, config, 3, CPU)
    task = market_task(config, actions="weights")
    return partial(MarketTask, task.market, task.env, config, CPU)


def trained(trainer, task, executor):
    one = trainer(task, executor=executor)
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
    with processes(build_task, count, threads=1) as executor:
        assert_same_run(trained(trainer, build_task(), executor), expected)


def test_the_order_in_which_rollouts_are_played_does_not_matter(alg, market_task, trainer):
    task = market_task(alg(explore_episodes=1, block=2), actions="orders")
    in_order = inline(task)

    def backwards(rollouts):
        return reversed(list(in_order(rollouts[::-1])))

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


def test_workers_leave_ctrl_c_to_the_main_process_and_their_death_is_a_clear_error(alg, market_task):
    build_task = task_maker("market", alg, market_task)
    task = build_task()
    actor = task.init_actor(2, torch.Generator().manual_seed(0))
    one = RolloutTask(actor, task.draw_episodes(2, np.random.default_rng(1)))
    (expected,) = inline(task)([one])
    with processes(build_task, 1, threads=1) as executor:
        for _ in range(2):
            (found,) = executor([one])
            np.testing.assert_array_equal(found.returns, expected.returns)
            (worker,) = multiprocessing.active_children()
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGINT)
        worker.kill()
        worker.join()
        with pytest.raises(WorkersLostError, match="A worker process died.*cluster=inline.*--resume"):
            list(executor([one]))


def test_workers_leave_nothing_behind_when_everything_is_killed(alg, market_task):
    """Named semaphores and files of shared memory outlive a process group that is killed: there are none."""
    build_task = task_maker("market", alg, market_task)
    task = build_task()
    one = RolloutTask(
        task.init_actor(2, torch.Generator().manual_seed(0)), task.draw_episodes(2, np.random.default_rng(1))
    )
    before = shared_files("self")
    with processes(build_task, 1, threads=1) as executor:
        list(executor([one]))
        (worker,) = multiprocessing.active_children()
        assert shared_files("self") <= before
        assert shared_files(worker.pid) == set()


def shared_files(process):
    lines = Path(f"/proc/{process}/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line}


class Unlucky:
    """A task whose episodes cannot be played."""

    def rollout(self, *_, **__):
        raise MissingDataError("env.data", "gone.csv", "the prices are gone")


def test_what_goes_wrong_in_a_worker_is_told():
    one = RolloutTask({}, np.zeros(1, dtype=np.int64))
    with (
        processes(Unlucky, 1, threads=1) as executor,  # type: ignore[arg-type]
        pytest.raises(RuntimeError, match="MissingDataError: the prices are gone"),
    ):
        list(executor([one]))


def test_a_worker_ends_quietly_when_the_process_it_works_for_is_gone(alg, monkeypatch):
    """Also where an answer was never read, which resets the connection instead of closing it."""
    monkeypatch.setattr(executor, "_end_with_parent", lambda: None)
    ours, theirs = multiprocessing.Pipe()
    raised = []

    def serve():
        try:
            executor._serve(theirs, task_maker("gym", alg, None), threads=torch.get_num_threads())
        except BaseException as error:  # noqa: BLE001 - looked at below
            raised.append(error)

    worker = threading.Thread(target=serve)
    worker.start()
    ours.send("no rollout")
    assert ours.poll(30)
    ours.close()
    worker.join(30)
    assert not worker.is_alive()
    assert raised == []
