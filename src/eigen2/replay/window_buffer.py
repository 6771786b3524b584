"""Reused memory for sampled windows.

Consecutive windows of an episode overlap in all rows but a few. Where a whole batch does, each path of windows is
written once, as the rows of one extent, and the windows are overlapping views of it: observation and next observation
together cost the memory traffic of one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.replay.windows import WindowStore


class WindowBuffer:
    """Windows of one batch shape, each step of a path expected to move on by `slide` rows."""

    def __init__(self, store: WindowStore, slide: int) -> None:
        self._store, self._slide = store, slide
        self._extents: npt.NDArray[Any] | None = None
        self._apart: npt.NDArray[Any] | None = None

    def fill(self, references: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The windows ``[paths, steps, *shape]`` of ``references [paths, steps]``, to be read only."""
        field = self._store.field
        numbers = self._store.sliding_rows(references, self._slide)
        if numbers is None:
            if self._apart is None:
                self._apart = np.empty((*references.shape, *field.shape), field.dtype)
            for reference, target in zip(
                references.reshape(-1).tolist(), self._apart.reshape(-1, *field.shape), strict=True
            ):
                self._store.read(reference, target)
            return self._apart
        if self._extents is None:
            elements = self._store.row_bytes // np.dtype(field.dtype).itemsize
            self._extents = np.empty((*numbers.shape, elements), field.dtype)
        self._store.read_rows(numbers.reshape(-1), self._extents.reshape(-1, self._extents.shape[2]))
        path, row, element = self._extents.strides
        windows = np.lib.stride_tricks.as_strided(
            self._extents,
            (*references.shape, self._store.length * self._extents.shape[2]),
            (path, self._slide * row, element),
        )
        return windows.reshape(*references.shape, *field.shape)
