"""Who plays the episodes. The unit is a block of agents; results never depend on who computes them, or when."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from eigen2 import seeds
from eigen2.algorithms.erl.task import Episodes, ERLTask, RolloutResult
from eigen2.errors import StoppedEarly, WorkersLostError
from eigen2.nets.stacked import Params


@dataclass(frozen=True)
class RolloutTask:
    """Play `episodes` with a block of agents."""

    actor: Params
    episodes: Episodes
    record: bool = False
    noise: float = 0.0
    stream: tuple[int, str, int] | None = None
    """Root seed, purpose and index of the noise's random stream."""


Executor = Callable[[Sequence[RolloutTask]], Iterator[RolloutResult]]
"""Results in the order of the tasks. Raises WorkersLostError when workers die."""


def inline(task: ERLTask) -> Executor:
    return lambda rollouts: (_play(task, one) for one in rollouts)


@contextmanager
def processes(make_task: Callable[[], ERLTask], count: int, threads: int) -> Iterator[Executor]:
    """`count` worker processes, each with a task of its own made by `make_task` (which must be picklable)."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        count, mp_context=context, initializer=_start, initargs=(make_task, threads)
    ) as pool:

        def execute(rollouts: Sequence[RolloutTask]) -> Iterator[RolloutResult]:
            try:
                with _workers_masked():
                    results = pool.map(_play_here, rollouts)
                yield from results
            except BrokenProcessPool as error:
                raise WorkersLostError(
                    "A worker process died, most likely killed by the system for lack of memory; everything up to the "
                    "last checkpoint is saved. Use fewer workers or cluster=inline and run `eigen2 train --resume`."
                ) from error

        yield execute


def _play(task: ERLTask, one: RolloutTask) -> RolloutResult:
    rng = None if one.stream is None else seeds.generator(*one.stream)
    return task.rollout(one.actor, one.episodes, record=one.record, noise=one.noise, rng=rng)


@contextmanager
def _workers_masked() -> Iterator[None]:
    """Workers started inside inherit the mask and leave Ctrl-C and a closed terminal to the main process.

    SIGTERM is left to them: it is how a pool ends its workers when one of them has died.
    """
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    )
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In a worker process

_task: ERLTask | None = None


def _start(make_task: Callable[[], ERLTask], threads: int) -> None:
    global _task
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    torch.set_num_threads(threads)
    _task = make_task()


def _end_with_parent() -> None:
    """Workers end with the process they work for, even if it is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(StoppedEarly.exit_code)


def _play_here(one: RolloutTask) -> RolloutResult:
    assert _task is not None
    return _play(_task, one)
