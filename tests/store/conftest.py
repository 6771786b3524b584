"""A small replay that follows the snapshot protocol, and states to save."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch


class TinyReplay:
    """A growing list of chunks; a snapshot names each chunk by a hash of its own kind."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.contents = {hashlib.blake2b(chunk, digest_size=16).hexdigest(): chunk for chunk in chunks}
        self.yielded: list[str] = []

    @property
    def manifest(self) -> Mapping[str, Any]:
        return {"segments": list(self.contents), "cursor": 2**100}

    def blobs(self, known: set[str]) -> Iterator[tuple[str, bytes]]:
        for name, chunk in self.contents.items():
            if name not in known:
                self.yielded.append(name)
                yield name, chunk


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
