"""A value that is not finite stops the run, by name."""

from collections.abc import Sequence

import numpy as np
import torch

from eigen2.algorithms.erl.evolution import FloatArray
from eigen2.errors import DamagedStateError
from eigen2.nets.stacked import Params


def require_finite(what: str, values: FloatArray, slots: Sequence[int], generation: int) -> None:
    for slot, value in zip(slots, values, strict=True):
        if not np.isfinite(value):
            raise DamagedStateError(f"The {what} of agent {slot} in generation {generation} is {value}.")


def require_finite_weights(actors: Params, generation: int) -> None:
    for name, value in actors.items():
        finite = torch.isfinite(value).flatten(1).all(1)
        if not finite.all():
            agent = int(torch.nonzero(~finite)[0])
            raise DamagedStateError(
                f"The actor tensor {name} of agent {agent} is not finite at the start of generation {generation}."
            )
