"""A straight line through noisy levels: Theil and Sen's slope, which outliers and a few jumps do not move."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BLOCKS = 40
"""More levels than this are first replaced by the medians of so many blocks: they depend less on each other, and the
interval is honest."""
Z = 1.96


@dataclass(frozen=True)
class Slope:
    value: float
    low: float
    high: float
    """95 % interval."""


def slope(parts: Sequence[tuple[FloatArray, FloatArray]]) -> Slope | None:
    """Median of the slopes between all pairs of points of the same part; None without a pair.

    Parts are (x, y). The level of one part says nothing about that of another: each process starts anew.
    """
    pairs, variance = [], 0.0
    for x, y in parts:
        x, y = _blocks(x), _blocks(y)
        i, j = np.triu_indices(len(x), 1)
        apart = x[j] != x[i]
        pairs.append((y[j] - y[i])[apart] / (x[j] - x[i])[apart])
        n = len(x)
        variance += n * (n - 1) * (2 * n + 5) / 18
    found = np.sort(np.concatenate(pairs)) if pairs else np.empty(0)
    if not len(found):
        return None
    # Kendall's S counts rising minus falling pairs; its deviation says how far from the middle the ends lie.
    reach = Z * np.sqrt(variance)
    low = int(np.clip((len(found) - reach) / 2, 0, len(found) - 1))
    high = int(np.clip((len(found) + reach) / 2, 0, len(found) - 1))
    return Slope(float(np.median(found)), float(found[low]), float(found[high]))


def last_half(parts: Sequence[tuple[FloatArray, FloatArray]]) -> list[tuple[FloatArray, FloatArray]]:
    return [(x[len(x) // 2 :], y[len(y) // 2 :]) for x, y in parts]


def _blocks(values: FloatArray) -> FloatArray:
    if len(values) <= BLOCKS:
        return values
    return np.array([np.median(block) for block in np.array_split(values, BLOCKS)])
