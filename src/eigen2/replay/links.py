"""Which record a transition is, which record holds its next observation, and which transition follows it.

Transitions are numbered from 0 for ever, time-major as they arrive; the newest `capacity` are live. The entry of
transition k lies at ``k % capacity``, so an entry is reused exactly when its transition leaves.
"""

import numpy as np
import numpy.typing as npt

from eigen2.replay.ring import RecordRing
from eigen2.replay.schema import STREAM
from eigen2.replay.stored import damaged

Numbers = npt.NDArray[np.int64]


class Links:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.total = 0
        self.first = 0
        # calloc: pages are touched only when written.
        self.slots: npt.NDArray[np.int32] = np.zeros((capacity, 2), np.int32)
        """Slots of a transition's own record and of the record with its next observation, ``[capacity, 2]``."""
        self.ahead: npt.NDArray[np.int32] = np.zeros(capacity, np.int32)
        """Distance to the next transition of the same episode; 0 when there is none (yet)."""

    def __len__(self) -> int:
        return self.total - self.first

    @property
    def used_bytes(self) -> int:
        return len(self) * (self.slots.itemsize * 2 + self.ahead.itemsize)

    def make_room(self, count: int) -> None:
        """Let the oldest transitions go so that `count` more keep within the capacity."""
        self.first = max(self.first, self.total + count - self.capacity)

    def append(self, slots: Numbers, width: int) -> Numbers:
        """Append transitions ``[rows * width]`` lying in `slots`, each row following the row before; return numbers."""
        first, self.total = self.total, self.total + len(slots)
        followed = self._entries(first, self.total - width)
        self.slots[self._entries(first, self.total), 0] = slots
        self.slots[followed, 1] = slots[width:]
        self.ahead[followed] = width
        self.ahead[self._entries(self.total - width, self.total)] = 0
        return np.arange(first, self.total)

    def _entries(self, first: int, stop: int) -> slice | Numbers:
        """Where transitions ``[first, stop)`` lie, in one piece if they do: that is several times as fast."""
        at = first % self.capacity
        whole = at + stop - first <= self.capacity
        return slice(at, at + stop - first) if whole else np.arange(first, stop) % self.capacity

    def connect(self, numbers: Numbers, slots: Numbers, following: Numbers | None = None) -> None:
        """Say where the next observation of `numbers` lies, and which transitions follow (None: none do)."""
        entries = numbers % self.capacity
        self.slots[entries, 1] = slots
        self.ahead[entries] = 0 if following is None else following - numbers

    def rebuild(self, ring: RecordRing, first: int, total: int, streams: int) -> Numbers:
        """Everything from the records themselves: a record's next one is its stream's next.

        Returns the newest transition ``[streams]`` of each stream whose episode goes on, else -1.
        """
        slots = np.arange(ring.floor, ring.tail) % ring.slots
        written = ring.fields[STREAM][slots]
        stream = np.where(written < 0, ~written, written)
        is_step = written >= 0
        numbers = total - int(is_step.sum()) + np.cumsum(is_step) - 1
        following = np.full(len(slots), -1)
        order = np.argsort(stream, kind="stable")
        same = stream[order[:-1]] == stream[order[1:]]
        following[order[:-1][same]] = order[1:][same]
        live = np.flatnonzero(is_step & (numbers >= first))
        if len(live) != total - first or (len(stream) and int(stream.max()) >= streams):
            raise damaged("its records are not those of its transitions and streams")
        then = following[live]
        self.first, self.total = first, total
        entries = numbers[live] % self.capacity
        self.slots[entries, 0] = slots[live]
        self.slots[entries, 1] = np.where(then >= 0, slots[then], ring.slots + stream[live])
        self.ahead[entries] = np.where((then >= 0) & is_step[then], numbers[then] - numbers[live], 0)
        newest = np.full(streams, -1, np.int64)
        newest[stream[live[then < 0]]] = numbers[live[then < 0]]
        return newest

    def walk(self, numbers: Numbers, steps: int) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Follow each transition for `steps` more: numbers ``[steps + 1, n]`` and whether each was reached.

        Past the end of an episode the last transition is repeated and marked as not reached.
        """
        path = np.empty((steps + 1, len(numbers)), np.int64)
        reached = np.ones((steps + 1, len(numbers)), np.bool_)
        path[0] = numbers
        for step in range(1, steps + 1):
            ahead = self.ahead[path[step - 1] % self.capacity]
            np.add(path[step - 1], ahead, out=path[step])
            np.logical_and(reached[step - 1], ahead > 0, out=reached[step])
        return path, reached

    def can_follow(self, steps: int) -> Numbers:
        """Every live transition that `steps` more transitions of its episode follow."""
        numbers = np.arange(self.first, self.total)
        reach = numbers
        for _ in range(steps):
            ahead = self.ahead[reach % self.capacity]
            numbers, reach = numbers[ahead > 0], (reach + ahead)[ahead > 0]
        return numbers
