"""Trains reinforcement-learning agents on rented machines and loses nothing."""

from pathlib import Path
from typing import TYPE_CHECKING

import eigen2.envs  # noqa: F401  registers eigen2/Trading-v0

if TYPE_CHECKING:
    from eigen2.evaluation.result import Champion


def load(path: str | Path) -> "Champion":
    """The champion of a run directory, or of a directory that `eigen2 export` wrote: `champion.act(observation)`.

    Weights are read from safetensors; nothing is unpickled and no code in the files is run.
    """
    from eigen2.harness.champions import load_champion

    return load_champion(path)
