"""States of earlier versions, which evaluated and kept a moving average of the actor, or knew their worst evaluation."""

from typing import Any

AVERAGES = ("average_actor", "actor_ema")
"""What the average was called in format 1, and later."""


def upgrade(state: Any) -> Any:
    """A training state in which the average, which is what was judged, is the actor; one without it stays as it is."""
    if isinstance(state, dict):
        present = {key: upgrade(value) for key, value in state.items() if key != "lowest"}
        for name in AVERAGES:
            if name in present:
                present["actor"] = present.pop(name)
        return present
    return [upgrade(value) for value in state] if isinstance(state, list) else state
