"""A small replay that follows the snapshot protocol, and states to save."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from eigen2.store.objects import reference


class TinyReplay:
    """A list of chunks, each of which is one object; remembers which ones it had to put."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.contents = {reference([chunk]).hash: chunk for chunk in chunks}
        self.written: list[str] = []

    @property
    def manifest(self) -> dict[str, Any]:
        return {"segments": list(self.contents), "cursor": 2**100}

    def write(self, put: Callable[[list[bytes]], str], has: Callable[[str], bool]) -> dict[str, Any]:
        for name, chunk in self.contents.items():
            if not has(name):
                assert put([chunk]) == name
                self.written.append(name)
        return self.manifest


@pytest.fixture
def tiny_replay() -> type[TinyReplay]:
    return TinyReplay


@pytest.fixture
def state_at() -> Callable[[int], dict[str, Any]]:
    """The state at a step: one part that changes, one that never does, and things only JSON can hold."""

    def build(step: int) -> dict[str, Any]:
        return {
            "actor": {"weight": torch.full((8, 8), float(step)), "bias": torch.arange(8)},
            "frozen": {"encoder": np.arange(1000, dtype=np.float32)},
            "generation": step,
            "random": {"state": 2**120 + step, "uinteger": np.uint64(2**64 - 1)},
            "history": [float(step), float("inf")],
        }

    return build
