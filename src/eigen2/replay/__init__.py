"""One replay buffer for every algorithm: compact in memory, incremental on disk, exact on resume."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigen2.replay.buffer import Replay
    from eigen2.replay.schema import Field, Schema, schema_from_spaces

__all__ = ["Field", "Replay", "Schema", "schema_from_spaces"]


def __getattr__(name: str) -> Any:
    """Imports on first use: whoever only reads a config or a manifest does not need torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'buffer' if name == 'Replay' else 'schema'}"), name)
