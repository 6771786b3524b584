"""The round trip of training state is exact, and what cannot be stored exactly is refused by name."""

import json
import math
import struct
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from eigen2.store import state as state_module
from eigen2.store.state import blobs, fingerprint, freeze, from_blobs, state_bytes

NUMPY_TYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
NUMPY_TYPES += ["float16", "float32", "float64", "complex64"]
TORCH_TYPES = [torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32]
TORCH_TYPES += [torch.uint64, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
TORCH_TYPES += [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64]


def round_trip(state: dict[str, Any]) -> dict[str, Any]:
    stored = {name: b"".join(chunks) for name, chunks in blobs(state)}
    return from_blobs(list(stored), stored.__getitem__)


def same(left: Any, right: Any) -> bool:
    """Equal in type, dtype, shape and every bit."""
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        bits = [t.contiguous().reshape(-1).view(torch.uint8) for t in (left, right)]
        return torch.equal(*bits)
    if isinstance(left, (np.ndarray, np.generic)):
        same_kind = left.dtype == right.dtype and left.shape == right.shape
        return bool(same_kind and left.tobytes() == right.tobytes())
    if isinstance(left, dict):
        return list(left) == list(right) and all(
            type(a) is type(b) and same(left[a], right[b]) for a, b in zip(left, right, strict=True)
        )
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    return bool(left == right)


numpy_arrays = hnp.arrays(
    st.sampled_from([np.dtype(name) for name in NUMPY_TYPES]),
    hnp.array_shapes(min_dims=0, min_side=0, max_side=4),
)


@st.composite
def torch_tensors(draw: st.DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(TORCH_TYPES))
    shape = draw(hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
    size = math.prod(shape) * dtype.itemsize
    raw = bytearray(draw(st.binary(min_size=size, max_size=size)))
    if dtype is torch.bool:
        raw = bytearray(byte & 1 for byte in raw)
    tensor = torch.empty(shape, dtype=dtype)
    tensor.reshape(-1).view(torch.uint8).numpy()[:] = np.frombuffer(raw, np.uint8)
    return tensor.transpose(0, -1) if draw(st.booleans()) and tensor.dim() > 1 else tensor


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**200), max_value=2**200),
    st.floats(),
    st.text(),
    st.binary(),
    numpy_arrays,
    numpy_arrays.filter(lambda array: array.ndim == 0).map(lambda array: array[()]),
    torch_tensors(),
)
keys = (
    st.text() | st.integers() | st.sampled_from(["$tensor", "$dict", "a/b", "a~1b", "~", "1", "__metadata__"])
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)
states = st.dictionaries(st.text().filter(lambda key: not key.startswith("$")), values, max_size=4)


@settings(max_examples=200, deadline=None)
@given(states)
def test_any_state_comes_back_exactly(state: dict[str, Any]) -> None:
    back = round_trip(state)
    assert same(state, back)
    assert fingerprint(back) == fingerprint(state)
    assert same(freeze(state), state)


@settings(max_examples=50, deadline=None)
@given(states, st.randoms(use_true_random=False))
def test_fingerprint_does_not_depend_on_the_order_of_dicts(state: dict[str, Any], random: Any) -> None:
    names = list(state)
    random.shuffle(names)
    assert fingerprint({name: state[name] for name in names}) == fingerprint(state)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (0.0, -0.0),
        (1, 1.0),
        (1, True),
        (None, "None"),
        ([1, 2], (1, 2)),
        ([[1], 2], [[1, 2]]),
        ({1: 0}, {"1": 0}),
        (b"a", "a"),
        (torch.zeros(2), np.zeros(2, np.float32)),
        (torch.zeros(2), torch.zeros(2, 1)),
        (torch.zeros(2), torch.zeros(2, dtype=torch.int32)),
        (np.float32(1), np.ones((), np.float32)),
    ],
)
def test_fingerprint_tells_nearly_equal_states_apart(left: Any, right: Any) -> None:
    assert fingerprint({"x": left}) != fingerprint({"x": right})


def test_a_single_changed_bit_changes_the_fingerprint() -> None:
    weight = torch.zeros(1000)
    before = fingerprint({"weight": weight})
    weight.view(torch.int32)[999] = 1
    assert fingerprint({"weight": weight}) != before


def test_module_and_optimiser_states_come_back_and_load() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 3)).square().sum().backward()
    optimiser.step()
    state = {"model": model.state_dict(), "optimiser": optimiser.state_dict()}
    back = round_trip(state)
    assert isinstance(state["model"], OrderedDict)
    assert type(back["model"]) is dict
    torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4)).load_state_dict(back["model"])
    torch.optim.Adam(model.parameters()).load_state_dict(back["optimiser"])
    assert same(back["optimiser"], state["optimiser"])


def test_generator_states_come_back() -> None:
    numpy_stream = np.random.Generator(np.random.PCG64(7))
    torch_stream = torch.Generator().manual_seed(7)
    back = round_trip({"numpy": numpy_stream.bit_generator.state, "torch": torch_stream.get_state()})
    again = np.random.Generator(np.random.PCG64(0))
    again.bit_generator.state = back["numpy"]
    torch_again = torch.Generator()
    torch_again.set_state(back["torch"])
    assert (again.random(5) == numpy_stream.random(5)).all()
    assert torch.equal(torch.rand(5, generator=torch_again), torch.rand(5, generator=torch_stream))


def test_restored_arrays_are_writable_and_independent() -> None:
    back = round_trip({"a": np.zeros(3), "t": torch.zeros(3)})
    back["a"][0] = 1.0
    back["t"][0] = 1.0
    assert back["a"][1] == 0.0


def test_frozen_state_does_not_follow_the_training() -> None:
    state: dict[str, Any] = {
        "weight": torch.zeros(3),
        "table": np.zeros(3),
        "list": [torch.zeros(1)],
        "history": [1],
    }
    frozen = freeze(state)
    before = fingerprint(frozen)
    state["weight"] += 1
    state["table"] += 1
    state["list"][0] += 1
    state["history"].append(2)
    assert fingerprint(frozen) == before


@pytest.mark.parametrize("wide", [False, True])
def test_the_safetensors_library_reads_what_is_written(wide: bool) -> None:
    arrays = {f"x{i}": torch.arange(7).to(dtype) for i, dtype in enumerate(TORCH_TYPES[: 13 if wide else 7])}
    stored = {name: b"".join(chunks) for name, chunks in blobs({"all": arrays})}
    read = safetensors.torch.load(stored["all.0.safetensors"])
    assert all(same(read[f"/all/{name}"], array) for name, array in arrays.items())


def test_numpy_arrays_are_read_by_the_library_too() -> None:
    arrays = {name: np.arange(7).astype(name) for name in NUMPY_TYPES}
    stored = {name: b"".join(chunks) for name, chunks in blobs({"all": arrays})}
    read = safetensors.numpy.load(stored["all.0.safetensors"])
    assert all(same(read[f"/all/{name}"], array) for name, array in arrays.items())


def test_an_unchanged_part_gives_the_same_blob() -> None:
    frozen = {"weight": torch.ones(10)}
    first = {name: b"".join(chunks) for name, chunks in blobs({"step": 1, "a": frozen, "b": torch.zeros(2)})}
    second = {name: b"".join(chunks) for name, chunks in blobs({"step": 2, "b": torch.ones(2), "a": frozen})}
    assert first["a.0.safetensors"] == second["a.0.safetensors"]
    assert first["b.0.safetensors"] != second["b.0.safetensors"]


def test_a_large_part_is_split_into_bounded_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "GROUP_BYTES", 100)
    state = {
        "big": [torch.full((5,), float(i), dtype=torch.float64) for i in range(10)],
        "small": torch.zeros(2),
    }
    sizes = {name: sum(len(chunk) for chunk in chunks[1:]) for name, chunks in blobs(state)}
    assert [size for name, size in sizes.items() if name.startswith("big")] == [80] * 5
    assert same(round_trip(state), state)


def test_the_rest_is_plain_json_without_nan() -> None:
    tree = dict(blobs({"x": float("nan"), "n": 2**70}))["tree.json"]

    def refuse(text: str) -> None:
        pytest.fail(f"{text} is not JSON")

    assert json.loads(b"".join(tree), parse_constant=refuse)["n"] == {"$int": hex(2**70)}


def test_state_bytes_counts_the_arrays() -> None:
    assert state_bytes({"a": torch.zeros(10), "b": {"c": np.zeros(3), "d": b"12345"}, "e": 1}) == 40 + 24 + 5


@pytest.mark.parametrize(
    ("state", "place"),
    [
        ({"a": {"b": [1, object()]}}, "/a/b/1"),
        ({"a": {"b": {1, 2}}}, "/a/b"),
        ({"a": [torch.float32]}, "/a/0"),
        ({"a": {"x": np.array(["text"])}}, "/a/x"),
        ({"a": np.array([object()], dtype=object)}, "/a"),
        ({"a": np.zeros(2, np.complex128)}, "/a"),
        ({"a": np.zeros(2, ">f4")}, "/a"),
        ({"a": torch.zeros(2, 2).to_sparse()}, "/a"),
        ({"a": torch.zeros(2, device="meta")}, "/a"),
        ({"a": {(1, 2): 3}}, "/a"),
        ({"a": {True: 3}}, "/a"),
        ({"a": np.datetime64("2020-01-01")}, "/a"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(state: dict[str, Any], place: str) -> None:
    for attempt in (lambda: list(blobs(state)), lambda: fingerprint(state), lambda: freeze(state)):
        with pytest.raises(TypeError) as refusal:
            attempt()
        assert f"{place} in the state" in str(refusal.value)


@pytest.mark.parametrize("key", [1, "$x", None])
def test_a_bad_top_level_key_is_refused(key: Any) -> None:
    with pytest.raises(TypeError, match="top-level key"):
        list(blobs({key: 1}))
