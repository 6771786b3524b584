"""A census of what is alive: objects by type, and the memory behind NumPy arrays, torch tensors and bytes.

The garbage collector lists containers only. A NumPy array is none, not even one of objects, and neither is a dict that
holds nothing but arrays; so arrays are looked for inside every container, inside dicts and tuples that the collector
does not track, inside arrays of objects, iterators over arrays, and the variables of running functions. Arrays and
tensors that share memory count once.
"""

import gc
import mmap
import sys
import types
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress
from operator import not_
from typing import Any

import numpy as np

NUMPY, TENSORS, GRAPHS, BYTES = "numpy arrays", "torch tensors", "torch tensors with a graph", "bytes"
BIG = 50_000_000
LONG = 1 << 20
"""Shorter bytes and bytearrays are not worth a look."""
WIDE = 100_000
"""Elements of an array of objects that are looked at."""

_BARREN: frozenset[type] = frozenset({
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.CodeType, types.GenericAlias, type,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, property, staticmethod, classmethod,
})  # fmt: skip
"""Tracked types that lead nowhere that is not also reached in another way."""


@dataclass(frozen=True)
class Block:
    """A piece of memory and one object that keeps it."""

    kind: str
    start: int
    bytes: int
    keeper: Any
    inside: Any = None
    """The container that the collector does not see, when that is where the keeper was found."""


@dataclass
class Census:
    types: Counter[type]
    blocks: list[Block]
    with_graph: int
    """Tensors whose graph is alive; few bytes of their own, but everything that the backward pass would need."""

    def kinds(self) -> dict[str, dict[str, int]]:
        """{kind: {count, bytes}}"""
        found: dict[str, dict[str, int]] = {}
        for block in self.blocks:
            entry = found.setdefault(block.kind, {"count": 0, "bytes": 0})
            entry["count"] += 1
            entry["bytes"] += block.bytes
        if self.with_graph:
            found.setdefault(GRAPHS, {"count": 0, "bytes": 0})["count"] = self.with_graph
        return found

    def big(self) -> list[Block]:
        return sorted((b for b in self.blocks if b.bytes >= BIG), key=lambda b: -b.bytes)


def take(outside: str = "") -> Census:
    """Everything alive; the variables of running functions count up to the first module named `outside`."""
    # The lists made here would set off collections that find nothing.
    collecting = gc.isenabled()
    gc.disable()
    try:
        objects = gc.get_objects()
        kinds = Counter(map(type, objects))
        blocks = [*_array_blocks(objects, outside)]
        tensors, with_graph = _tensor_blocks(objects, kinds)
        return Census(kinds, _distinct([*blocks, *tensors]), with_graph)
    finally:
        if collecting:
            gc.enable()


def type_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def is_environment(kind: type) -> bool:
    """Gymnasium's, or something that calls itself one."""
    known = any(base.__name__ in ("Env", "VectorEnv") for base in kind.__mro__)
    return known or kind.__name__.endswith(("Env", "Environment", "Environments"))


def described(block: Block) -> dict[str, Any]:
    shape = getattr(block.keeper, "shape", None)
    size = [len(block.keeper)] if shape is None else [int(n) for n in shape]
    return {
        "kind": block.kind, "bytes": block.bytes, "shape": size, "dtype": str(getattr(block.keeper, "dtype", "")),
    }  # fmt: skip


def _array_blocks(objects: list[Any], outside: str) -> Iterator[Block]:
    wanted = {np.ndarray, np.flatiter, dict, tuple, bytes, bytearray, *_below(np.ndarray)}
    barren = _BARREN | {Block}
    fertile = compress(objects, map(not_, map(barren.__contains__, map(type, objects))))
    reached = gc.get_referents(*fertile)
    reached.extend(_local_values(outside))
    queue = [(thing, None) for thing in compress(reached, map(wanted.__contains__, map(type, reached)))]
    seen: set[int] = set()
    hidden: list[tuple[Any, Any]] = []
    while queue:
        hidden.clear()
        for thing, inside in queue:
            kind = type(thing)
            if kind is dict or kind is tuple:
                if gc.is_tracked(thing) or id(thing) in seen:
                    continue
                seen.add(id(thing))
                hidden.extend((item, thing) for item in gc.get_referents(thing) if type(item) in wanted)
            elif id(thing) in seen:
                continue
            elif kind is np.flatiter:
                hidden.append((thing.base, thing))
            elif kind is bytes or kind is bytearray:
                if len(thing) >= LONG:
                    seen.add(id(thing))
                    yield Block(BYTES, id(thing), len(thing), thing, inside)
            else:
                seen.add(id(thing))
                if thing.dtype.hasobject and thing.dtype.fields is None:
                    items = thing.ravel()[:WIDE].tolist()
                    hidden.extend((item, thing) for item in items if type(item) in wanted)
                block = _of_array(thing, inside)
                if block is not None:
                    yield block
        queue = list(hidden)


def root_of(keeper: Any) -> Any:
    """The array that has the memory which a view shows."""
    while isinstance(keeper, np.ndarray) and isinstance(keeper.base, np.ndarray):
        keeper = keeper.base
    return keeper


def _of_array(array: Any, inside: Any) -> Block | None:
    root = root_of(array)
    # The kernel may drop what is mapped from a file.
    if root.nbytes == 0 or isinstance(root.base, mmap.mmap):
        return None
    return Block(NUMPY, int(root.__array_interface__["data"][0]), root.nbytes, array, inside)


def _tensor_blocks(objects: list[Any], kinds: Counter[type]) -> tuple[list[Block], int]:
    """Torch is asked only when the process has it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return [], 0
    tensor_types = {kind for kind in kinds if torch.Tensor in kind.__mro__}
    blocks, with_graph = [], 0
    for tensor in compress(objects, map(tensor_types.__contains__, map(type, objects))):
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            continue
        graph = tensor.grad_fn is not None
        with_graph += graph
        storage = tensor.untyped_storage()
        try:
            start = storage.data_ptr()
        except RuntimeError:
            # A tensor without memory of its own, as tracing makes them.
            continue
        if storage.nbytes():
            blocks.append(Block(GRAPHS if graph else TENSORS, start, storage.nbytes(), tensor))
    return blocks, with_graph


def _distinct(blocks: list[Block]) -> list[Block]:
    """Of blocks that overlap the longest one; of equal ones the first."""
    kept: list[Block] = []
    end = 0
    for block in sorted(blocks, key=lambda b: (b.start, -b.bytes)):
        if block.start >= end:
            kept.append(block)
            end = block.start + block.bytes
    return kept


def _local_values(outside: str) -> Iterator[Any]:
    """Variables of the functions that are running between here and the module `outside`."""
    frame: types.FrameType | None = sys._getframe()
    entered = False
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        within = not module.startswith((__package__ or "", outside or "\0"))
        if entered and not within and outside and module.startswith(outside):
            return
        if within:
            entered = True
            yield from frame.f_locals.values()
        frame = frame.f_back


def _below(kind: type) -> Iterable[type]:
    subclasses: list[type] = kind.__subclasses__()
    for sub in subclasses:
        yield sub
        yield from _below(sub)
