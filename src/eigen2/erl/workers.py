"""Who plays the episodes. A unit of work is a block of agents; results never depend on who computes it, or when."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from eigen2 import seeds
from eigen2.erl.task import Episodes, Rollout, Task
from eigen2.nets.stacked import Params


@dataclass(frozen=True)
class Work:
    """Play `episodes` with a block of agents."""

    actor: Params
    episodes: Episodes
    record: bool = False
    noise: float = 0.0
    stream: tuple[int, str, int] | None = None
    """Root seed, purpose and index of the noise's random stream."""


Play = Callable[[Sequence[Work]], Iterator[Rollout]]
"""Results in the order of the work."""


def play(task: Task, work: Work) -> Rollout:
    rng: np.random.Generator | None = None if work.stream is None else seeds.generator(*work.stream)
    return task.rollout(work.actor, work.episodes, record=work.record, noise=work.noise, rng=rng)


def inline(task: Task) -> Play:
    return lambda work: (play(task, one) for one in work)


@contextmanager
def processes(build: Callable[[], Task], count: int, threads: int) -> Iterator[Play]:
    """`count` worker processes, each with a task of its own made by `build` (which must be picklable)."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        count, mp_context=context, initializer=_start, initargs=(build, threads)
    ) as pool:
        yield lambda work: pool.map(_play, work)


_task: Task | None = None


def _start(build: Callable[[], Task], threads: int) -> None:
    global _task
    torch.set_num_threads(threads)
    _task = build()


def _play(work: Work) -> Rollout:
    assert _task is not None
    return play(_task, work)
