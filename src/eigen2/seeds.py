"""Named random streams, all derived from one root seed.

A stream is named by a purpose and indices, e.g. ``generator(7, "windows", generation)``. The same name always
gives the same numbers, whatever was drawn elsewhere, so results do not depend on the number of workers or on the
order in which they finish, and a stream that is derived anew at each step needs no saved state at all.
No global generator is read anywhere in the package.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def sequence(seed: int, purpose: str, *index: int) -> np.random.SeedSequence:
    """Entropy of the stream (seed, purpose, index...); stable across versions and machines."""
    name = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
    return np.random.SeedSequence([seed, name, *index])


def generator(seed: int, purpose: str, *index: int) -> np.random.Generator:
    """A NumPy generator at the start of its stream."""
    return np.random.Generator(np.random.PCG64(sequence(seed, purpose, *index)))


def torch_generator(seed: int, purpose: str, *index: int) -> torch.Generator:
    """A CPU torch generator at the start of its stream; draw on the CPU and move, so devices agree."""
    import torch

    return torch.Generator().manual_seed(integer(seed, purpose, *index))


def integer(seed: int, purpose: str, *index: int) -> int:
    """One integer below 2**63, for libraries that want to be seeded themselves."""
    return int(sequence(seed, purpose, *index).generate_state(1, np.uint64)[0] >> np.uint64(1))
