"""A manifest comes back as it was written, or is refused by name."""

import hashlib
import json
import math
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigen2.errors import DamagedStateError
from eigen2.store.durable import write_atomically
from eigen2.store.manifest import Manifest, from_bytes, read_manifest, to_bytes
from eigen2.store.objects import Ref
from eigen2.store.spelling import spelled

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
        | st.dictionaries(st.integers(), inner, max_size=2).map(OrderedDict)
    ),
    max_leaves=20,
)
MANIFEST = Manifest(
    name="latest",
    step=12,
    created="2026-01-02T03:04:05+00:00",
    objects={"state/tree.json": Ref("ab" * 32, 10), "replay/x": Ref("cd" * 32, 20), "y": Ref("cd" * 32, 20)},
    replay={"segments": ["x"], "rng": 2**127, "empty": {}, "none": None, "share": 0.1},
    replay_step=10,
    metrics={"fitness": 1.5, "worst": -math.inf},
    logs={"metrics": 1234},
    identity={"config": {"seed": 7, "alg": {"lr": 0.1}}, "data": "d" * 64, "version": "0.3.0"},
)


def test_a_manifest_comes_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "latest.json"
    path.write_bytes(to_bytes(MANIFEST))
    assert read_manifest(path) == MANIFEST
    assert list(tmp_path.iterdir()) == [path]
    assert MANIFEST.bytes == 30


@given(ANYTHING)
def test_the_spelling_is_that_of_the_library(value: Any) -> None:
    assert spelled(value) == json.dumps(value, sort_keys=True, indent=1, allow_nan=False)


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": {1, 2}}, {("a",): 1}])
def test_what_has_no_spelling_is_refused_as_by_the_library(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        spelled(value)


def test_a_manifest_is_synced_before_its_rename_and_its_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.replace

    def recording_fsync(descriptor: int) -> None:
        calls.append("directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        fsync(descriptor)

    def recording_rename(source: Path, target: Path) -> None:
        calls.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "replace", recording_rename)
    write_atomically(tmp_path / "latest.json", to_bytes(MANIFEST))
    assert calls == ["file", "rename", "directory"]


def test_nan_metrics_come_back(tmp_path: Path) -> None:
    path = tmp_path / "latest.json"
    path.write_bytes(to_bytes(replace(MANIFEST, metrics={"x": math.nan})))
    assert math.isnan(read_manifest(path).metrics["x"])


def test_every_flipped_bit_is_refused_by_name() -> None:
    content = to_bytes(MANIFEST)
    where = Path("checkpoints/latest.json")
    for position in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[position] ^= 1 << bit
            with pytest.raises(DamagedStateError, match="checkpoints/latest.json"):
                from_bytes(bytes(flipped), where)


def test_every_truncation_is_refused() -> None:
    content = to_bytes(MANIFEST)
    for length in range(len(content)):
        with pytest.raises(DamagedStateError):
            from_bytes(content[:length], Path("latest.json"))


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(DamagedStateError, match="latest.json"):
        from_bytes(content, Path("latest.json"))


def test_deep_nesting_is_refused_not_a_crash() -> None:
    with pytest.raises(DamagedStateError):
        from_bytes(b"[" * 200_000, Path("latest.json"))


def test_a_manifest_under_another_name_is_refused() -> None:
    with pytest.raises(DamagedStateError, match="manifest of 'latest' under another name"):
        from_bytes(to_bytes(MANIFEST), Path("best.json"))


def respelled(change: Callable[[dict[str, Any]], Any]) -> bytes:
    """The manifest as another version might have written it: changed, and signed again."""
    body = json.loads(to_bytes(MANIFEST))["body"]
    change(body)

    def spell(document: dict[str, Any]) -> bytes:
        return json.dumps(document, sort_keys=True, indent=1).encode() + b"\n"

    return spell({"body": body, "sha256": hashlib.sha256(spell(body)).hexdigest()})


def test_a_manifest_of_format_1_is_read() -> None:
    def format_1(body: dict[str, Any]) -> None:
        del body["identity"]
        body.update(format=1, config_hash="c", data_fingerprint="d")

    expected = replace(MANIFEST, identity={"config_hash": "c", "data": "d"})
    assert from_bytes(respelled(format_1), Path("latest.json")) == expected
    assert from_bytes(to_bytes(expected), Path("latest.json")) == expected


def test_a_later_format_is_refused_with_both_numbers() -> None:
    with pytest.raises(DamagedStateError, match="format 4, this version reads formats 1 to 3"):
        from_bytes(respelled(lambda body: body.update(format=4)), Path("latest.json"))


def test_an_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(DamagedStateError, match=r"other fields than format 3 has: \['parents'\]"):
        from_bytes(respelled(lambda body: body.update(parents=[])), Path("latest.json"))


@pytest.mark.parametrize("name", ["identity", "metrics", "logs", "replay", "replay_step"])
def test_a_missing_field_takes_its_default(name: str) -> None:
    default = getattr(Manifest("latest", 0, "", {}), name)
    found = from_bytes(respelled(lambda body: body.pop(name)), Path("latest.json"))
    assert found == replace(MANIFEST, **{name: default})


@pytest.mark.parametrize("name", ["name", "step", "created", "objects"])
def test_a_missing_field_without_a_default_is_refused_by_name(name: str) -> None:
    with pytest.raises(DamagedStateError, match=rf"\['{name}'\]"):
        from_bytes(respelled(lambda body: body.pop(name)), Path("latest.json"))


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(DamagedStateError, match="best.json does not exist"):
        read_manifest(tmp_path / "best.json")
