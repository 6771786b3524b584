"""State from a stranger who can hash: sizes are believed when they fit, nonsense is one sentence and exit code 5."""

import json
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from command_lab import Lab
from forgery import Body, Forgery

from eigen2.errors import DamagedStateError, ResourceError
from eigen2.harness import expected
from eigen2.harness.journal import read_log
from eigen2.harness.run import Run
from eigen2.memory import limits
from eigen2.replay import Replay
from eigen2.replay.codec import _CRC, _FRAME, _HEADER, MAGIC, VERSION, ZSTD
from eigen2.replay.stored import unfolded_bytes
from eigen2.store.layout import LINE_LIMIT
from eigen2.store.manifest import Manifest, from_bytes
from eigen2.store.objects import Objects, Ref
from eigen2.store.parity import heal, put_parity
from eigen2.store.tensors import unpack


@pytest.fixture
def stranger(finished: Path, tmp_path: Path) -> Forgery:
    return Forgery(Path(shutil.copytree(finished, tmp_path / "stranger")))


def restore(forgery: Forgery) -> Replay:
    checkpoint = Run(forgery.run).checkpoints.load("latest")
    assert checkpoint.manifest.replay is not None
    with checkpoint.loading():
        return Replay.restore(checkpoint.manifest.replay, checkpoint.objects.read)


def refused(lab: Lab, forgery: Forgery, *words: str) -> None:
    for command in (("train", "--resume", forgery.run), ("evaluate", forgery.run)):
        done = lab.run(*command)
        assert done.code == 5, (command, done.err)
        assert "Traceback" not in done.err
        assert all(word in done.err for word in words), done.err


# Bombs


def test_a_compressed_segment_that_says_it_is_longer_than_its_rows_is_not_unpacked(stranger: Forgery) -> None:
    def bomb(content: bytes) -> bytes:
        _, _, _, digest, rows, width, plane, _ = _HEADER.unpack_from(content)
        header = _HEADER.pack(MAGIC, VERSION, ZSTD, digest, rows, width, plane, 1)
        stored = zstandard.ZstdCompressor().compress(bytes(1 << 24))
        return b"".join(
            [
                header,
                _CRC.pack(zlib.crc32(header)),
                _FRAME.pack(rows, len(stored), zlib.crc32(stored)),
                stored,
            ]
        )

    stranger.forge_segment("records", bomb)
    with pytest.raises(DamagedStateError, match="has the wrong length"):
        restore(stranger)


def test_a_segment_of_more_rows_than_its_checkpoint_says_is_refused_before_anything_is_allocated(
    stranger: Forgery,
) -> None:
    def huge(content: bytes) -> bytes:
        magic, version, codec, digest, _, width, plane, frames = _HEADER.unpack_from(content)
        header = _HEADER.pack(magic, version, codec, digest, 2**40, width, plane, frames)
        return header + _CRC.pack(zlib.crc32(header)) + content[_HEADER.size + _CRC.size :]

    stranger.forge_segment("pending", huge)
    with pytest.raises(DamagedStateError, match="are expected"):
        restore(stranger)


def test_a_state_or_replay_that_cannot_fit_into_memory_is_refused_before_it_is_read(
    stranger: Forgery, lab: Lab
) -> None:
    free = limits.limit().bytes
    with pytest.raises(ResourceError, match="are free"):
        expected.require_memory(free + 1, "It")
    body = stranger.body()
    assert unfolded_bytes(body["replay"]) > 1000
    stranger.forge(lambda body: body["objects"]["state/tree.json"].update(size=2**50))
    assert lab.run("evaluate", stranger.run).code == 4


def test_a_replay_of_a_capacity_that_no_memory_has_is_refused(stranger: Forgery, lab: Lab) -> None:
    stranger.forge(lambda body: body["replay"] and body["replay"].update(capacity=2**31 - 1))
    done = lab.run("train", "--resume", stranger.run, "alg.generations=9")
    assert done.code in (4, 5), done.err
    assert done.err.startswith("eigen2: ")
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 16]}},
        {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}, "b": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}},
        {"a": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "OBJECT", "shape": [4], "data_offsets": [0, 16]}},
        {"a": {"dtype": "F32", "shape": [4], "data_offsets": [2**70, 16]}},
        {"a": [1, 2]},
    ],
)  # fmt: skip
def test_a_header_of_tensors_that_does_not_describe_its_file_is_refused(header: Any) -> None:
    text = json.dumps(header).encode()
    with pytest.raises(ValueError, match=r"\w"):
        unpack(struct.pack("<Q", len(text)) + text + bytes(16))
    with pytest.raises(ValueError, match="longer than the file"):
        unpack(struct.pack("<Q", 2**60) + text)


def test_one_array_is_not_unfolded_many_times(stranger: Forgery) -> None:
    leaf = {"$bytes": "/stolen"}
    stranger.forge_tree(lambda tree: tree.update(stolen=leaf, again=[leaf] * 10))
    with pytest.raises(DamagedStateError, match="stands in two places"):
        Run(stranger.run).checkpoints.load("latest").state()


def test_a_line_without_end_is_no_record(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    with log.open("wb") as file:
        file.write(b'{"step": 1}\n')
        file.truncate(100 * LINE_LIMIT)
    with pytest.raises(DamagedStateError, match="longer than any record"):
        read_log(log)


@pytest.mark.parametrize("text", ["a: &a [x]\nb: *a", "- " * 100_000, "[" * 100_000, "a: " + "9" * 300_000])
def test_a_config_that_unfolds_or_is_too_long_or_deep_is_refused(stranger: Forgery, text: str) -> None:
    (stranger.run / "config.yaml").write_text(text)
    with pytest.raises(DamagedStateError, match=r"config.yaml (cannot be read|is \S+ bytes long)"):
        Run(stranger.run).read_config()


# Nonsense


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(step=2**63),
        lambda body: body.update(step=-1),
        lambda body: body.update(step=True),
        lambda body: body.update(step="3"),
        lambda body: body.update(objects=[]),
        lambda body: body["objects"].update({"state/x": {"hash": "../" * 21 + "x", "size": 1}}),
        lambda body: body["objects"].update({"state/x": {"hash": "a" * 64, "size": 2**63}}),
        lambda body: body.update(metrics={"a": [1]}),
        lambda body: body.update(metrics={"a": 10**400}),
        lambda body: body.update(identity=nested(200)),
        lambda body: body.update(identity=3),
        lambda body: body.update(replay="none"),
        lambda body: body.update(name=["latest"]),
        lambda body: body.update(format=[1]),
        lambda body: body.pop("objects"),
        lambda body: body.update(more=1),
    ],
)
def test_a_manifest_of_nonsense_is_damage(stranger: Forgery, change: Callable[[Body], None]) -> None:
    stranger.forge(change)
    path = stranger.manifest("latest")
    with pytest.raises(DamagedStateError):
        from_bytes(path.read_bytes(), path)


@pytest.mark.parametrize(
    "change",
    [
        lambda replay: replay.update(total=2**63),
        lambda replay: replay.update(total=replay["total"] + 1),
        lambda replay: replay.update(first=-1),
        lambda replay: replay.update(first=0.0),
        lambda replay: replay.update(capacity=2**62),
        lambda replay: replay.update(segment_records=0),
        lambda replay: replay.update(tail=replay["tail"] + 1),
        lambda replay: replay.update(streams=10**9),
        lambda replay: replay.update(streams=0),
        lambda replay: replay.update(alpha=0.5),
        lambda replay: replay.update(windows={"obs": {}}),
        lambda replay: replay.update(random={}),
        lambda replay: replay["schema"].update(observation=[]),
        lambda replay: replay["schema"]["observation"][0].update(dtype="object"),
        lambda replay: replay["schema"]["observation"][0].update(shape=[2**31 - 1] * 4),
        lambda replay: replay["parts"].update(records=[]),
        lambda replay: replay["parts"].update(pending=[]),
        lambda replay: replay["parts"].update(secrets=replay["parts"]["pending"]),
        lambda replay: replay["parts"]["records"].append(replay["parts"]["records"][0]),
        lambda replay: replay.pop("seed"),
    ],
)
def test_a_replay_manifest_of_nonsense_is_damage(stranger: Forgery, change: Callable[[Body], None]) -> None:
    def changed(body: Body) -> None:
        # `init` has no replay.
        if body["replay"]:
            change(body["replay"])

    assert stranger.body()["replay"]
    stranger.forge(changed)
    with pytest.raises(DamagedStateError):
        restore(stranger)


def test_weights_that_are_not_finite_are_refused_by_name(stranger: Forgery, lab: Lab) -> None:
    logical = next(name for name in stranger.body()["objects"] if name.startswith("state/actors."))

    def poisoned(content: bytes) -> bytes:
        start = 8 + int.from_bytes(content[:8], "little")
        values = np.frombuffer(content[start:], np.float32).copy()
        values[0] = np.nan
        return content[:start] + values.tobytes()

    stranger.forge_blob(logical, poisoned)
    refused(lab, stranger, "/actors/", "is not finite", "though every hash of it matches", "checkpoints/")


def test_a_state_of_other_shapes_is_refused_by_name(stranger: Forgery, lab: Lab) -> None:
    logical = next(name for name in stranger.body()["objects"] if name.startswith("state/actors."))

    def reshaped(content: bytes) -> bytes:
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        entry = next(entry for entry in header.values() if len(entry["shape"]) > 1)
        entry["shape"] = [int(np.prod(entry["shape"]))]
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + length :]

    stranger.forge_blob(logical, reshaped)
    refused(lab, stranger, "/actors/", "this trainer has")


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.clear(),
        lambda tree: tree.update(generation="many"),
        lambda tree: tree.update(champion=[]),
        lambda tree: tree.update({"generation": {"$float": "00"}}),
        lambda tree: tree.update({"generation": {"$pickle": "x"}}),
        lambda tree: tree.update(deep=nested(500)),
    ],
)
def test_a_state_of_nonsense_is_damage(
    stranger: Forgery, lab: Lab, change: Callable[[dict[str, Any]], None]
) -> None:
    stranger.forge_tree(change)
    done = lab.run("evaluate", stranger.run)
    assert done.code == 5, done.err
    assert "Traceback" not in done.err


def test_a_size_that_no_parity_can_hold_is_not_allocated(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "objects")
    kept, lost = objects.put(b"kept"), objects.put(b"lost!")
    _, (parity,) = put_parity(objects, [{kept.hash: kept.size, lost.hash: lost.size}], {}, 0.5)
    objects.delete(lost.hash)
    group = {parity.hash: (kept.hash, lost.hash)}

    def manifest(size: int) -> Manifest:
        refs = {"state/a": kept, "state/b": Ref(lost.hash, size), "parity/0": parity}
        return Manifest("latest", 1, "", refs, parity=group)

    assert heal(objects, manifest(2**61)) == []
    assert heal(objects, manifest(lost.size)) == [lost.hash]
