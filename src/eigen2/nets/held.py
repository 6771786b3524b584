"""Who holds how much memory."""

from collections.abc import Mapping
from typing import Any


def held_bytes(values: Any) -> int:
    """Bytes of the tensors and arrays in nested dicts and lists; nothing is copied."""
    if isinstance(values, Mapping):
        return sum(held_bytes(value) for value in values.values())
    if isinstance(values, list | tuple):
        return sum(held_bytes(value) for value in values)
    return int(getattr(values, "nbytes", 0))
