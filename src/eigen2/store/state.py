"""Training state <-> blobs: tensors in safetensors, everything else in one JSON text; nothing is pickled.

A state is a dict with string keys. Below it may hold dicts (string or integer keys), lists, tuples, torch
tensors, NumPy arrays and scalars, int of any length, float (infinities and NaN included), bool, None, str and
bytes. The round trip is exact: types, dtypes, shapes, bit patterns, the order of dicts, lists apart from tuples,
NumPy apart from torch. Three things are normalised: an OrderedDict comes back as a dict, a Parameter as a plain
tensor, and every tensor on the CPU and contiguous. Anything else is a TypeError that names its place.

Tensors are grouped by the state's top-level keys, so that parts that did not change are stored once.
"""

import hashlib
import json
import math
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

from eigen2.store.bounded_json import load_bounded
from eigen2.store.durable import Buffer
from eigen2.store.tensors import Array, dtype_name, pack, raw_bytes, to_numpy, to_torch, unpack

State: TypeAlias = Mapping[str, Any]

TREE = "tree.json"
"""Name of the JSON text; the tensors' blobs are called `<top-level key>.<number>.safetensors`."""
GROUP_BYTES = 16 << 20
"""A blob is closed when it reaches this size, so memory stays bounded whatever the size of the state."""

LEAVES = ("$tensor", "$array", "$scalar", "$bytes")
TAGS = ("$int", "$float", "$tuple", "$dict", *LEAVES)

_JSON_INT = 1 << 53
"""Larger integers are written in hex: other readers of JSON would round them."""


def blobs(state: State) -> Iterator[tuple[str, list[Buffer]]]:
    """Name and content of every blob of `state`, one group of tensors in memory at a time."""
    tree, leaves = _flatten(state)
    for key in state:
        number, group, size = 0, dict[str, Array](), 0
        for name, array in leaves[key].items():
            if group and size + array.nbytes > GROUP_BYTES:
                yield f"{key}.{number}.safetensors", pack(group)
                number, group, size = number + 1, {}, 0
            group[name] = array
            size += array.nbytes
        if group:
            yield f"{key}.{number}.safetensors", pack(group)
    yield TREE, [json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()]


def from_blobs(names: list[str], read: Callable[[str], bytes]) -> dict[str, Any]:
    """The state whose blobs have these `names`; `read` returns the bytes of one. ValueError when they are no state."""
    tree = load_bounded(read(TREE))
    if not isinstance(tree, dict) or any(key.startswith("$") for key in tree):
        raise ValueError("the state is no table")
    wanted = dict[str, str]()
    _collect_wanted(tree, wanted)
    stored: dict[str, Any] = {}
    for name in names:
        if name != TREE:
            for key, (dtype, shape, data) in unpack(read(name)).items():
                if key not in wanted or key in stored:
                    raise ValueError(f"nothing in the state is called {key[:200]!r}, or two things are")
                make = to_torch if wanted[key] == "$tensor" else to_numpy
                stored[key] = make(dtype, shape, data)
    if missing := wanted.keys() - stored.keys():
        raise ValueError(f"{min(missing)[:200]!r} is missing in the state")
    state: dict[str, Any] = _restore(tree, stored)
    return state


def freeze(state: State) -> dict[str, Any]:
    """A copy on the CPU that later training steps cannot change, for a save that runs beside them."""
    return {key: _copy(value, f"/{_escape(key)}") for key, value in _top_level(state)}


def fingerprint(state: State) -> str:
    """One SHA-256 over every bit of the state; it does not depend on the order of dicts or on devices."""
    digest = hashlib.sha256()
    _digest(state, "", digest.update)
    return digest.hexdigest()


def largest_share(state: State) -> float:
    """The part of the state's bytes that its largest blob takes; 1 for a state without arrays."""
    _, leaves = _flatten(state)
    sizes = [sum(array.nbytes for array in group.values()) for group in leaves.values()]
    return min(GROUP_BYTES, max(sizes)) / sum(sizes) if sum(sizes) else 1.0


def state_bytes(state: State) -> int:
    """Bytes of all tensors, arrays and bytes objects in the state: what a full save writes, within a few KB."""
    _, leaves = _flatten(state)
    return sum(array.nbytes for group in leaves.values() for array in group.values())


def _flatten(state: State) -> tuple[Any, dict[str, dict[str, Array]]]:
    """The JSON tree, and the arrays it refers to by name, grouped by top-level key."""
    leaves: dict[str, dict[str, Array]] = {}
    tree: dict[str, Any] = {}
    for key, value in _top_level(state):
        leaves[key] = {}
        tree[key] = _encode(value, f"/{_escape(key)}", leaves[key])
    return tree, leaves


def _top_level(state: State) -> Iterator[tuple[str, Any]]:
    for key, value in state.items():
        if type(key) is not str or key.startswith("$"):
            raise TypeError(
                f"the state has the top-level key {key!r}: it must be a string not starting with '$'"
            )
        yield key, value


def _encode(value: Any, path: str, leaves: dict[str, Array]) -> Any:
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return value if abs(value) <= _JSON_INT else {"$int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$float": struct.pack(">d", value).hex()}
    if kind is list:
        return [_encode(item, f"{path}/{i}", leaves) for i, item in enumerate(value)]
    if kind is tuple:
        return {"$tuple": [_encode(item, f"{path}/{i}", leaves) for i, item in enumerate(value)]}
    if kind in (dict, OrderedDict):
        pairs = [(key, _encode(item, f"{path}/{_escape(key)}", leaves)) for key, item in _items(value, path)]
        if all(isinstance(key, str) and not key.startswith("$") for key, _ in pairs):
            return dict(pairs)
        return {"$dict": [[_encode(key, path, leaves), item] for key, item in pairs]}
    tag, array = _leaf(value, path)
    # The keys 1 and "1" of one dict lead to the same path.
    name = path if path not in leaves else f"{path}~{len(leaves)}"
    leaves[name] = array
    return {tag: name}


def _leaf(value: Any, path: str) -> tuple[str, Array]:
    """How a value with raw bytes is tagged, and the array that holds them."""
    kind = type(value)
    if kind in (torch.Tensor, torch.nn.Parameter):
        tag, array = "$tensor", value
    elif kind is np.ndarray:
        tag, array = "$array", value
    elif isinstance(value, np.generic):
        tag, array = "$scalar", np.asarray(value)
    elif kind is bytes:
        tag, array = "$bytes", np.frombuffer(value, np.uint8)
    else:
        raise TypeError(
            f"{path} in the state is a {kind.__module__}.{kind.__qualname__}, which cannot be stored; "
            "use tensors, arrays, numbers, strings, bytes, None, and dicts, lists or tuples of them"
        )
    if dtype_name(array) is None:
        layout = getattr(array, "layout", "dense")
        raise TypeError(
            f"{path} in the state has the type {array.dtype} ({layout}), which cannot be stored exactly; "
            "convert it to a dense array of bool, integers or floats"
        )
    return tag, array


def _restore(node: Any, stored: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_restore(item, stored) for item in node]
    if not isinstance(node, dict):
        return node
    tag = _tag(node)
    if tag is None:
        return {key: _restore(item, stored) for key, item in node.items()}
    content = node[tag]
    if tag == "$int":
        return int(_text(content), 16)
    if tag == "$float":
        return _double(bytes.fromhex(_text(content)))
    if tag == "$tuple":
        return tuple(_restore(item, stored) for item in content)
    if tag == "$dict":
        return {_key(_restore(key, stored)): _restore(item, stored) for key, item in content}
    value = stored[content]
    if tag == "$scalar":
        return value[()]
    return value.tobytes() if tag == "$bytes" else value


def _tag(node: dict[str, Any]) -> str | None:
    """How a table in the tree stands for something else; None when it is a table of the state."""
    tag = next(iter(node), "")
    if not tag.startswith("$"):
        return None
    if tag not in TAGS or len(node) != 1:
        raise ValueError(f"the state holds a {tag[:40]!r}, which this version does not know")
    return tag


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise ValueError(f"a number is spelled as {type(content).__name__}")
    return content


def _double(content: bytes) -> float:
    if len(content) != 8:
        raise ValueError(f"a float has {len(content)} bytes")
    return float(struct.unpack(">d", content)[0])


def _key(key: Any) -> str | int:
    if type(key) not in (str, int):
        raise ValueError(f"a table of the state has a key of type {type(key).__name__}")
    return key  # type: ignore[no-any-return]


def _collect_wanted(tree: Any, wanted: dict[str, str]) -> None:
    """Which kind of leaf each stored array becomes; each is named once."""
    if isinstance(tree, list):
        for item in tree:
            _collect_wanted(item, wanted)
    elif isinstance(tree, dict):
        tag = _tag(tree)
        if tag in LEAVES:
            if _text(tree[tag]) in wanted:
                raise ValueError(f"{tree[tag][:200]!r} stands in two places of the state")
            wanted[tree[tag]] = tag
        else:
            for item in tree.values():
                _collect_wanted(item, wanted)


def _copy(value: Any, path: str) -> Any:
    kind = type(value)
    if kind in (dict, OrderedDict):
        return {key: _copy(item, f"{path}/{_escape(key)}") for key, item in _items(value, path)}
    if kind in (list, tuple):
        return kind(_copy(item, f"{path}/{i}") for i, item in enumerate(value))
    if value is None or kind in (bool, int, float, str):
        return value
    _leaf(value, path)
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone() if value.device.type == "cpu" else value.detach().cpu()
    return value.copy() if isinstance(value, np.ndarray) else value


def _digest(value: Any, path: str, update: Callable[[Buffer], None]) -> None:
    """Feed one value: every piece is preceded by its tag and length, so different states give different texts."""
    kind = type(value)
    if kind in (dict, OrderedDict) or (path == "" and isinstance(value, Mapping)):
        pairs = sorted(_items(value, path), key=lambda pair: (isinstance(pair[0], str), pair[0]))
        _frame(f"dict {len(pairs)}", b"", update)
        for key, item in pairs:
            _frame("key", repr(key).encode("utf-8", "backslashreplace"), update)
            _digest(item, f"{path}/{_escape(key)}", update)
    elif kind in (list, tuple):
        _frame(f"{kind.__name__} {len(value)}", b"", update)
        for i, item in enumerate(value):
            _digest(item, f"{path}/{i}", update)
    elif value is None or kind in (bool, str):
        _frame(kind.__name__, str(value).encode("utf-8", "surrogatepass"), update)
    elif kind is int:
        _frame("int", hex(value).encode(), update)
    elif kind is float:
        _frame("float", struct.pack(">d", value), update)
    else:
        tag, array = _leaf(value, path)
        _frame(f"{tag} {dtype_name(array)} {tuple(array.shape)}", raw_bytes(array), update)


def _frame(tag: str, content: Buffer, update: Callable[[Buffer], None]) -> None:
    update(f"{tag} {memoryview(content).nbytes}\n".encode())
    update(content)


def _items(value: Mapping[Any, Any], path: str) -> Iterator[tuple[str | int, Any]]:
    for key, item in value.items():
        if type(key) not in (str, int):
            raise TypeError(
                f"{path or '/'} in the state has the key {key!r}: keys must be strings or integers"
            )
        yield key, item


def _escape(key: str | int) -> str:
    """One step of a JSON pointer, so that a slash in a key cannot be taken for a level."""
    return str(key).replace("~", "~0").replace("/", "~1")
