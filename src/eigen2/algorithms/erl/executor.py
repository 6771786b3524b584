"""Who plays the episodes. The unit is a block of agents; results never depend on who computes them, or when."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import torch

from eigen2 import seeds
from eigen2.algorithms.erl.task import Episodes, ERLTask, RolloutResult
from eigen2.errors import StoppedEarly, WorkersLostError
from eigen2.nets.stacked import Params

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


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
    """`count` worker processes, each with a task of its own made by `make_task` (which must be picklable).

    They are started when they are first needed. Each has a pipe, and a thread here that waits for it: a pool of the
    standard library has named semaphores, which stay in /dev/shm when the whole process group is killed.
    """
    workers: list[_Worker] = []
    idle: SimpleQueue[_Worker] = SimpleQueue()

    def play(one: RolloutTask) -> RolloutResult:
        worker = idle.get()
        try:
            return worker.play(one)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(count, thread_name_prefix="worker") as waiting:

        def execute(rollouts: Sequence[RolloutTask]) -> Iterator[RolloutResult]:
            if not workers:
                with _workers_masked():
                    workers.extend(_Worker(make_task, threads) for _ in range(count))
                for worker in workers:
                    idle.put(worker)
            yield from waiting.map(play, rollouts)

        try:
            yield execute
        finally:
            for worker in workers:
                worker.end()


class _Worker:
    """A worker process, seen from the process it works for."""

    def __init__(self, make_task: Callable[[], ERLTask], threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make_task, threads), daemon=True)
        self._process.start()
        # Only the worker has the other end from here on: when it dies, whoever waits for it is woken.
        theirs.close()

    def play(self, one: RolloutTask) -> RolloutResult:
        try:
            self._pipe.send(replace(one, actor=_packed(one.actor)))
            outcome = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise WorkersLostError(
                "A worker process died, most likely killed by the system for lack of memory; everything up to the "
                "last checkpoint is saved. Use fewer workers or cluster=inline and run `eigen2 train --resume`."
            ) from error
        if isinstance(outcome, BaseException):
            raise outcome
        assert isinstance(outcome, RolloutResult)
        return outcome

    def end(self) -> None:
        """It holds nothing that is needed; whoever waits for it is released."""
        self._process.terminate()
        self._process.join()
        self._pipe.close()


def _packed(actor: Params) -> Any:
    """Arrays with their devices: tensors would be sent as shared memory, with files and sockets of their own."""
    return {name: (value.detach().cpu().numpy(), str(value.device)) for name, value in actor.items()}


def _unpacked(actor: Any) -> Params:
    return {name: torch.from_numpy(array).to(device) for name, (array, device) in actor.items()}


def _play(task: ERLTask, one: RolloutTask) -> RolloutResult:
    rng = None if one.stream is None else seeds.generator(*one.stream)
    return task.rollout(one.actor, one.episodes, record=one.record, noise=one.noise, rng=rng)


@contextmanager
def _workers_masked() -> Iterator[None]:
    """Workers started inside inherit the mask and leave Ctrl-C and a closed terminal to the main process.

    SIGTERM is left to them: it is how they are ended.
    """
    # It unblocks SIGINT when it starts, which would be in here.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    )
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In a worker process


def _serve(pipe: "Connection[Any, Any]", make_task: Callable[[], ERLTask], threads: int) -> None:
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    torch.set_num_threads(threads)
    task = make_task()
    while True:
        try:
            one = pipe.recv()
        except (EOFError, ConnectionError):
            return  # the process it works for is gone
        try:
            outcome: RolloutResult | Exception = _play(task, replace(one, actor=_unpacked(one.actor)))
        except Exception as error:  # noqa: BLE001 - raised where the episodes are wanted
            outcome = _portable(error)
        try:
            pipe.send(outcome)
        except ConnectionError:
            return


def _portable(error: Exception) -> Exception:
    """The error as it can be sent: one that cannot be made again from its arguments keeps its words."""
    try:
        type(error)(*error.args)
        plain = all(isinstance(argument, str | int | float) for argument in error.args)
    except Exception:  # noqa: BLE001 - making it runs code of its own
        plain = False
    return error if plain else RuntimeError(f"{type(error).__name__}: {error}")


def _end_with_parent() -> None:
    """Workers end with the process they work for, even if it is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(StoppedEarly.exit_code)
