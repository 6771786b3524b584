"""For libraries that draw from the global generators of torch, NumPy and Python: lent to them while they work."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

READ: tuple[Callable[[], Any], ...] = (
    torch.get_rng_state,
    torch.cuda.get_rng_state_all,
    np.random.get_state,
    random.getstate,
)
WRITE: tuple[Callable[[Any], None], ...] = (
    torch.set_rng_state,
    torch.cuda.set_rng_state_all,
    np.random.set_state,
    random.setstate,
)


@contextmanager
def lent(state: list[Any]) -> Iterator[None]:
    """Inside, the generators continue from `state` (from anywhere if it is empty); afterwards it holds where they are."""
    others = [read() for read in READ]
    for write, value in zip(WRITE, state or others, strict=True):
        write(value)
    try:
        yield
        state[:] = [read() for read in READ]
    finally:
        for write, value in zip(WRITE, others, strict=True):
            write(value)
