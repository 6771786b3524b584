"""Tensors and arrays as safetensors blobs, written from their own memory and read back bit for bit.

The format is a length, a JSON header and the raw little-endian values. It is written here, not by the library,
because the library's `save` builds one big bytes object; what is written is a plain safetensors file, which the
library reads.
"""

import json
import math
import sys
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from eigen2.store.bounded_json import load_table
from eigen2.store.durable import Buffer

Array: TypeAlias = torch.Tensor | npt.NDArray[Any]

_TORCH = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.complex64: "C64",
}
_NUMPY = {
    np.dtype(kind): name
    for kind, name in (
        ("bool", "BOOL"),
        ("uint8", "U8"),
        ("int8", "I8"),
        ("uint16", "U16"),
        ("int16", "I16"),
        ("uint32", "U32"),
        ("int32", "I32"),
        ("uint64", "U64"),
        ("int64", "I64"),
        ("float16", "F16"),
        ("float32", "F32"),
        ("float64", "F64"),
        ("complex64", "C64"),
    )
}
_TORCH_OF = {name: kind for kind, name in _TORCH.items()}
_NUMPY_OF = {name: kind for kind, name in _NUMPY.items()}

if sys.byteorder != "little":
    raise ImportError("Eigen2 stores tensors as they lie in memory and needs a little-endian machine")


def dtype_name(array: Array) -> str | None:
    """The format's name of the array's type, or None when it cannot be stored exactly."""
    if isinstance(array, torch.Tensor):
        plain = array.layout == torch.strided and array.device.type != "meta"
        return _TORCH.get(array.dtype) if plain else None
    return _NUMPY.get(array.dtype)


def raw_bytes(array: Array) -> memoryview:
    """The values in row-major order; a view when the array is contiguous and on the CPU, else a copy."""
    if isinstance(array, torch.Tensor):
        values = array.detach().cpu().resolve_conj().resolve_neg().contiguous()
        return values.reshape(-1).view(torch.uint8).numpy().data
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def pack(arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> list[Buffer]:
    """The safetensors file of `arrays`, as buffers to be written one after the other."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    buffers: list[Buffer] = []
    offset = 0
    # Wide types first, as the library does, so that every array is aligned inside the file.
    for name in sorted(arrays, key=lambda name: (-_itemsize(arrays[name]), name)):
        array = arrays[name]
        data = raw_bytes(array)
        header[name] = {
            "dtype": dtype_name(array),
            "shape": list(array.shape),
            "data_offsets": [offset, offset + data.nbytes],
        }
        offset += data.nbytes
        buffers.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little") + text, *buffers]


def unpack(blob: bytes) -> dict[str, tuple[str, tuple[int, ...], memoryview]]:
    """Name -> (type name, shape, values) of every array in a safetensors file; values are views of `blob`.

    ValueError when the header does not describe the file: every byte belongs to one array, whose shape needs as many.
    """
    start = 8 + int.from_bytes(blob[:8], "little")
    if len(blob) < 8 or start > len(blob):
        raise ValueError("its header is longer than the file")
    entries = load_table(blob[8:start])
    view, found = memoryview(blob), {}
    end = 0
    for (first, stop), name in sorted((_offsets(entry), name) for name, entry in entries.items()):
        entry = entries[name]
        dtype, shape = entry.get("dtype"), entry.get("shape")
        if dtype not in _TORCH_OF or not isinstance(shape, list) or not all(map(_is_count, shape)):
            raise ValueError(f"{name[:200]!r} is no array")
        if first != end or stop - first != math.prod(shape) * _TORCH_OF[dtype].itemsize:
            raise ValueError(f"{name[:200]!r} has another length than its shape {shape}")
        found[name] = (dtype, tuple(shape), view[start + first : start + stop])
        end = stop
    if start + end != len(blob):
        raise ValueError("it holds bytes that belong to no array")
    return {name: found[name] for name in entries}


def _offsets(entry: Any) -> tuple[int, int]:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise ValueError("an array has no place in the file")
    return offsets[0], offsets[1]


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def to_numpy(dtype: str, shape: tuple[int, ...], data: memoryview) -> npt.NDArray[Any]:
    """A new writable array, `shape` as stored."""
    if dtype not in _NUMPY_OF:
        raise ValueError(f"NumPy has no type {dtype}")
    array: npt.NDArray[Any] = np.frombuffer(data, _NUMPY_OF[dtype]).reshape(shape)
    return array.copy()


def to_torch(dtype: str, shape: tuple[int, ...], data: memoryview) -> torch.Tensor:
    """A new CPU tensor, `shape` as stored."""
    tensor = torch.empty(shape, dtype=_TORCH_OF[dtype])
    tensor.reshape(-1).view(torch.uint8).numpy()[:] = np.frombuffer(data, np.uint8)
    return tensor


def _itemsize(array: Array) -> int:
    return array.dtype.itemsize
