"""JSON that may come from a stranger, who can nest it deeper than any reader's stack."""

import json
from typing import Any

DEEPEST = 100


def load_bounded(content: bytes | str, deepest: int = DEEPEST) -> Any:
    """The value in `content`; ValueError when it is no JSON or is nested more than `deepest` levels deep."""
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    opening: tuple[Any, Any] = ("{", "[") if isinstance(content, str) else (b"{", b"[")
    if content.count(opening[0]) + content.count(opening[1]) <= deepest:
        return value
    level = [value]
    for _ in range(deepest):
        below = [item for item in level if isinstance(item, dict | list)]
        if not below:
            return value
        level = [inner for item in below for inner in (item.values() if isinstance(item, dict) else item)]
    raise ValueError(f"it is nested more than {deepest} levels deep")


def load_table(content: bytes | str) -> dict[str, Any]:
    """The JSON object in `content`; ValueError when it is something else."""
    found = load_bounded(content)
    if not isinstance(found, dict):
        raise ValueError(f"it is a {type(found).__name__}, not a table")
    return found
