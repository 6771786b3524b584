"""States of earlier versions, which evaluated and kept a moving average of the actor, or knew their worst evaluation."""

from collections.abc import Mapping
from typing import Any

AVERAGES = ("average_actor", "actor_ema")
"""What the average was called in format 1, and later."""


def upgrade(state: Mapping[str, Any]) -> dict[str, Any]:
    """A training state of any format as the present version writes it."""
    present: dict[str, Any] = _with_one_actor(dict(state))
    return {"parts": 1, **present}


def _with_one_actor(state: Any) -> Any:
    """The average, which is what was judged, is the actor; a state without it stays as it is."""
    if isinstance(state, dict):
        present = {key: _with_one_actor(value) for key, value in state.items() if key != "lowest"}
        for name in AVERAGES:
            if name in present:
                present["actor"] = present.pop(name)
        return present
    return [_with_one_actor(value) for value in state] if isinstance(state, list) else state
