"""Acts before the kernel does: a look at memory every now and then, more often the less there is left.

What counts is the share of what this process could have: its own memory over its own and what is still free. In a
cgroup of its own that is the use of the cgroup; on a machine or in a cgroup that is full of others it is not.
"""

import ctypes
import gc
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from eigen2.memory.limits import Limit, in_use, limits
from eigen2.memory.words import size_words

SHORT = 0.90
"""Share at which caches are dropped and less is worked on at a time."""
FULL = 0.95
"""Share at which the run stops."""
LAST = 0.98
"""Share at which it ends on the spot, if a step could not be stopped."""
SPEED = 1e10
"""Bytes per second that a process is thought to fill at most: looks are so near to each other."""
SOONEST, LATEST = 0.005, 1.0
"""Seconds between looks."""
LIMITS_EVERY = 10.0
"""Seconds after which limits are read anew: they can be changed from outside."""
BORDER = 0.01
"""Seconds after a look before which the end of a step is no reason for another."""


@dataclass(frozen=True)
class Use:
    """Of one limit."""

    own: int
    """Bytes of this process and its workers that count against it."""
    free: int
    limit: Limit

    @property
    def share(self) -> float:
        return self.own / max(1, self.own + self.free)

    def words(self) -> str:
        shared = self.own + self.free < 0.97 * self.limit.bytes
        others = f", of which others leave {size_words(self.own + self.free)}" if shared else ""
        return (
            f"{100 * self.share:.0f} % of {size_words(self.limit.bytes)} ({self.limit.source}{others}) in use"
        )


def use(of: Limit) -> Use:
    used = in_use(of)
    free = max(0, of.bytes - used)
    # Who uses it costs more to find out, and matters only where it is nearly all used.
    if used < SHORT * of.bytes or (of.group is None and of.source != "machine"):
        return Use(used, free, of)
    return Use(min(used, own_bytes()), free, of)


def own_bytes() -> int:
    """Memory of this process and those it has started, without what is mapped from files."""
    process = psutil.Process()
    return sum(_private(one) for one in (process, *process.children(recursive=True)))


def _private(process: psutil.Process) -> int:
    try:
        info = process.memory_info()
    except psutil.Error:  # It has ended since.
        return 0
    return int(info.rss) - int(getattr(info, "shared", 0))


class Guard:
    """`look` when it is due; `short` and `full` are called with what was found, again as often as it gets worse.

    `measure` gives the use of every limit.
    """

    def __init__(
        self,
        short: Callable[[Use], None],
        full: Callable[[Use], None],
        measure: Callable[[], list[Use]] | None = None,
    ) -> None:
        self._on_short, self._on_full = short, full
        self._measure = measure or _Limits()
        self._next_short = SHORT
        self._looked = -BORDER
        self._lock = threading.Lock()

    def look(self) -> float:
        """-> seconds after which to look again."""
        with self._lock:
            return self._look()

    def border(self) -> None:
        """A step has ended: look, unless that was done just now."""
        if time.monotonic() - self._looked >= BORDER:
            self.look()

    def _look(self) -> float:
        found, self._looked = self._measure(), time.monotonic()
        nearest = max(found, key=lambda one: one.share)
        if nearest.share >= FULL:
            self._on_full(nearest)
        elif nearest.share >= self._next_short:
            self._next_short = nearest.share + 0.01
            self._on_short(nearest)
        left = min(FULL * (one.own + one.free) - one.own for one in found)
        return min(LATEST, max(SOONEST, left / SPEED))

    def has_room(self, size: int) -> bool:
        """Whether so many more bytes can be had now."""
        return all(one.own + size <= LAST * (one.own + one.free) for one in self._measure())


class _Limits:
    def __init__(self) -> None:
        self._known, self._read = limits(), time.monotonic()

    def __call__(self) -> list[Use]:
        if time.monotonic() - self._read > LIMITS_EVERY:
            self._known, self._read = limits(), time.monotonic()
        try:
            return [use(one) for one in self._known]
        except OSError:  # A cgroup is gone: this process was moved to another.
            self._known, self._read = limits(), time.monotonic()
            return [use(one) for one in self._known]


def trim() -> None:
    """Give memory that is free inside the allocator back to the system, where it is kept (glibc)."""
    if sys.platform == "linux":
        give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if give_back is not None:
            give_back(0)


def give_back() -> None:
    """Collect garbage, and let the allocators of CPU and GPU keep nothing that is free."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    trim()
