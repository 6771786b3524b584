"""Does memory grow from step to step, beyond warm-up, beyond buffers that fill, and beyond chance?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eigen2.memory.slopes import FloatArray, Slope, last_half, slope

ENOUGH = 8
"""Steps after the warm-up that a judgement needs."""
NOTABLE = 20_000
"""Bytes per step; less is no leak in a run of usual length."""
MUCH = 32_000_000
"""In a long run, this much is a leak however slowly it came."""
LITTLE = 16_000_000
"""In a short run, allocators vary by this much."""
LATE = 0.4
"""A leak does not stop: the second half must grow at this share of the whole slope. What saturates does not."""
OVERHEAD = 0.1
"""A buffer that fills may cost this much more than it says."""

Part = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class Growth:
    slope: Slope
    filling: float
    """Bytes per step of buffers that fill, not part of the slope."""
    threshold: float
    leak: bool
    steps: int


def warm_up(steps: int) -> int:
    """First steps of a process, which prove nothing: allocators, caches and libraries settle."""
    return max(3, steps // 5)


def settled(part: Part) -> Part:
    x, y = part
    first = warm_up(len(x))
    return x[first:], y[first:]


def judge(unexplained: Sequence[Part], filled: Sequence[Part]) -> Growth | None:
    """Parts are (steps, bytes) of each process; None when no process has made enough steps."""
    kept = [
        (settled(one), settled(other))
        for one, other in zip(unexplained, filled, strict=True)
        if len(one[0]) - warm_up(len(one[0])) >= ENOUGH
    ]
    levels = [one for one, _ in kept]
    found, late = slope(levels), slope(last_half(levels))
    if found is None or late is None:
        return None
    filling = slope([other for _, other in kept])
    per_step = 0.0 if filling is None else filling.value
    span = max(float(x[-1] - x[0]) for x, _ in levels)
    levelled = late.value < LATE * found.value
    bar = max(LITTLE / span, min(NOTABLE, MUCH / span), OVERHEAD * abs(per_step))
    leak = found.low > bar and late.value > bar and not levelled
    if levelled and found.low > 0:
        # The first half was still warm-up.
        found, levels = late, last_half(levels)
    return Growth(found, per_step, bar, leak, sum(len(x) for x, _ in levels))


def part(steps: Sequence[float], levels: Sequence[float]) -> Part:
    return np.asarray(steps, np.float64), np.asarray(levels, np.float64)
