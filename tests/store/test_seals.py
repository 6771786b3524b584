"""A sealed file proves every byte of itself; a file without a seal says nothing."""

import json
from collections.abc import Callable
from io import BytesIO

import pytest
import torch
from safetensors.torch import load, save

from eigen2.store.seals import (
    json_holds,
    json_text,
    line_holds,
    sealed_record,
    sealed_tensors,
    sealed_text,
    tensors_hold,
    text_holds,
)

RECORD = {"status": "done", "score": -0.1, "packages": {"torch": None}, "word": "é"}
Holds = Callable[[bytes], bool | None]


def file_holds(content: bytes) -> bool | None:
    return tensors_hold(BytesIO(content))


SEALED: dict[str, tuple[bytes, Holds]] = {
    "text": (sealed_text("seed: 7\nalg:\n  kind: erl\n"), text_holds),
    "json": (json_text(sealed_record(RECORD)), json_holds),
    "line": (json.dumps(sealed_record(RECORD)).encode(), line_holds),
    "tensors": (sealed_tensors({"w": torch.arange(6.0), "b": torch.zeros(1)}), file_holds),
}


@pytest.mark.parametrize("kind", SEALED)
def test_every_flipped_bit_is_found(kind: str) -> None:
    content, holds = SEALED[kind]
    assert holds(content) is True
    for position in range(len(content)):
        for bit in (0x01, 0x20, 0x80):
            changed = content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :]
            assert holds(changed) is not True, (position, bit)


@pytest.mark.parametrize("kind", SEALED)
def test_a_shorter_or_longer_file_is_found(kind: str) -> None:
    content, holds = SEALED[kind]
    for wrong in (b"", content[:-1], content[: len(content) // 2], content + b"0"):
        assert holds(wrong) is not True


def test_what_earlier_versions_wrote_carries_no_seal() -> None:
    assert text_holds(b"seed: 7\n") is None
    assert json_holds(json.dumps(RECORD, indent=2).encode()) is None
    assert line_holds(json.dumps(RECORD).encode()) is None
    assert file_holds(save({"w": torch.zeros(3)})) is None


def test_a_record_may_be_sealed_again_and_tensors_are_read_as_ever() -> None:
    again = sealed_record(sealed_record(RECORD) | {"status": "stopped"})
    assert json_holds(json_text(again)) is True
    assert load(SEALED["tensors"][0])["w"].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_file_longer_than_what_is_read_at_once() -> None:
    content = sealed_tensors({f"weights {number:05}": torch.zeros(1) for number in range(20_000)})
    assert len(content) > 1 << 20
    assert file_holds(content) is True
    for position in (len(content) // 2, len(content) - 1):
        assert file_holds(content[:position] + b"\1" + content[position + 1 :]) is False
