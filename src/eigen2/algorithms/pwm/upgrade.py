"""States of format 1, whose keys had other names."""

from typing import Any

RENAMED = {"average_actor": "actor_ema"}


def upgrade(state: Any) -> Any:
    """A training state with the present names; one that has them already stays as it is."""
    if isinstance(state, dict):
        return {RENAMED.get(key, key): upgrade(value) for key, value in state.items()}
    return [upgrade(value) for value in state] if isinstance(state, list) else state
