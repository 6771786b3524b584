"""The replays of several tasks as one: padded to the widest with zeros, every transition marked with its task."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eigen2.algorithms.pwm.collector import schema_of
from eigen2.envs.control.environments import Task
from eigen2.errors import DataError
from eigen2.replay.buffer import Replay
from eigen2.replay.schema import STREAM, Field, Schema, described, vector_schema

TASK = "task"
PART = 65_536
"""Transitions copied at a time."""


def union_schema(tasks: Sequence[Task]) -> Schema:
    observations = max(task.observation_size for task in tasks)
    actions = max(task.action_size for task in tasks)
    return vector_schema(observations, actions, Field(TASK, (), "int16"))


def unite(tasks: Sequence[Task], sources: Sequence[tuple[int, Replay]], seed: int, compress: bool) -> Replay:
    """One replay of all transitions of `sources`, each the number of its task and that task's replay."""
    for number, source in sources:
        wanted = schema_of(tasks[number])
        if source.schema != wanted:
            raise DataError(
                f"a replay of {tasks[number].name} holds {described(source.schema)}, the task needs {described(wanted)}; "
                "use data recorded in this task"
            )
    schema = union_schema(tasks)
    capacity = sum(len(source) for _, source in sources)
    united = Replay(schema, capacity, seed, compress=compress)
    streams = 0
    for number, source in sources:
        streams += _append(united, source, number, streams)
    return united


def _append(united: Replay, source: Replay, task: int, first_stream: int) -> int:
    """Copies one source, episode by episode in the order of its streams; returns how many streams it has."""
    live = np.arange(source.links.first, source.links.total)
    stream = source.ring.fields[STREAM][source.links.slots[live % source.capacity, 0]]
    for number in np.unique(stream):
        own = live[stream == number]
        # Consecutive transitions of a stream are one episode unless the links say that it ended or was cut.
        linked = source.links.ahead[own[:-1] % source.capacity] == np.diff(own)
        for piece in np.split(own, np.flatnonzero(~linked) + 1):
            for part in np.split(piece, range(PART, len(piece), PART)):
                _copy(united, source, part, task, first_stream + int(number))
    return int(stream.max(initial=-1)) + 1


def _copy(united: Replay, source: Replay, numbers: NDArray[np.int64], task: int, stream: int) -> None:
    batch = source.transitions(numbers)
    widths = {f.name: f.shape[0] for f in (*united.schema.observation, *united.schema.step) if f.shape}

    def column(name: str, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """[time, ...] -> [time, 1, ...], padded"""
        if name in widths:
            values = np.pad(values, ((0, 0), (0, widths[name] - values.shape[1])))
        return values[:, None]

    steps = {"obs": column("obs", batch.observation["obs"].numpy())}
    steps |= {name: column(name, values.numpy()) for name, values in batch.step.items()}
    steps[TASK] = np.full((len(numbers), 1), task, np.int16)
    after = {"obs": column("obs", batch.next_observation["obs"].numpy())}
    united.extend_transitions(steps, after, streams=[stream])


def transitions_by_task(replay: Replay, tasks: int, numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """`numbers` split by the task they belong to."""
    of = replay.ring.fields[TASK][replay.links.slots[numbers % replay.capacity, 0]]
    return [numbers[of == task] for task in range(tasks)]
