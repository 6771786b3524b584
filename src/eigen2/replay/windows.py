"""Large observation fields, kept by reference outside the packed records."""

from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.replay.schema import Field


class WindowStore:
    """All windows of one large field."""

    def __init__(self, field: Field) -> None:
        self.field = field

    def put(self, stream: int, window: npt.NDArray[Any], record: int) -> int:
        """Keep a window written by `stream` for as long as `record` lives; returns its reference."""
        raise NotImplementedError

    def read(self, references: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
        """Write the windows ``[...]`` into ``out [..., *shape]``."""
        raise NotImplementedError

    def release(self, head: int) -> None:
        """Records before `head` are gone."""

    @property
    def used_bytes(self) -> int:
        return 0
