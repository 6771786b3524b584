"""Who keeps an object alive, as `Class.attribute` or `module.name`; and what a tensor's graph keeps."""

import gc
import sys
import types
from collections import deque
from collections.abc import Iterable
from typing import Any

LEVELS = 6
NODES = 500
"""Of a graph, so many nodes are looked at."""
_PLAIN = (dict, list, tuple, set, frozenset, deque)


def holder(thing: Any, inside: Any = None) -> str | None:
    """None when nothing with a name is found. `inside` is a container that the collector does not see."""
    chain = [thing] if inside is None else [thing, inside]
    for _ in range(LEVELS):
        above = None
        for referrer in gc.get_referrers(chain[-1]):
            if referrer is chain or any(referrer is known for known in chain):
                continue
            if isinstance(referrer, types.CellType):
                name = _closure(referrer)
            elif isinstance(referrer, dict):
                name = _in_module(referrer, chain[-1])
            else:
                name = _in_object(referrer, chain)
            if name is not None:
                return name
            if isinstance(referrer, _PLAIN):
                above = referrer
        if above is None:
            return None
        chain.append(above)
    return None


def _in_module(names: dict[Any, Any], held: Any) -> str | None:
    module = names.get("__name__")
    if not isinstance(module, str) or getattr(sys.modules.get(module), "__dict__", None) is not names:
        return None
    return next((f"{module}.{key}" for key, value in names.items() if value is held), module)


def _in_object(referrer: Any, chain: list[Any]) -> str | None:
    """The attribute that leads to the end of the chain; its dict of attributes may be the end itself."""
    kind = type(referrer)
    if isinstance(referrer, _PLAIN) or kind.__module__ in ("builtins", "eigen2.memory.census"):
        return None
    attributes = getattr(referrer, "__dict__", {})
    held = chain[-2] if len(chain) > 1 and attributes is chain[-1] else chain[-1]
    named = dict(attributes)
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        named |= {
            slot: getattr(referrer, slot, None) for slot in ([slots] if isinstance(slots, str) else slots)
        }
    name = next((key for key, value in named.items() if value is held), None)
    return kind.__qualname__ if name is None else f"{kind.__qualname__}.{name}"


def _closure(cell: types.CellType) -> str | None:
    for closure in gc.get_referrers(cell):
        if isinstance(closure, tuple):
            for function in gc.get_referrers(closure):
                if isinstance(function, types.FunctionType) and function.__closure__ is closure:
                    name = function.__code__.co_freevars[closure.index(cell)]
                    return f"{function.__qualname__}.{name}"
    return None


def graph_bytes(tensors: Iterable[Any]) -> int:
    """What the graphs behind tensors keep for the backward pass; parameters are not their own."""
    torch = sys.modules["torch"]
    storages: dict[int, int] = {}
    queue = [tensor.grad_fn for tensor in tensors]
    seen = set(queue)
    while queue and len(seen) < NODES:
        node = queue.pop()
        for name in dir(node):
            if not name.startswith("_saved_"):
                continue
            try:
                saved = getattr(node, name)
            except RuntimeError:  # Already freed by a backward pass.
                continue
            if isinstance(saved, torch.Tensor) and not (saved.is_leaf and saved.requires_grad):
                storage = saved.untyped_storage()
                storages[storage.data_ptr()] = storage.nbytes()
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                queue.append(child)
    return sum(storages.values())
