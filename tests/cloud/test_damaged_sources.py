"""What is damaged here never becomes a whole object there, although a file is read only once, while it is sent."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from eigen2.cloud.bucket import Bucket, Source
from eigen2.cloud.local import LocalBucket
from eigen2.cloud.location import parse
from eigen2.cloud.mirror import Mirror
from eigen2.cloud.names import object_key
from eigen2.cloud.pieces import PIECE, pieces
from eigen2.errors import DamagedStateError
from eigen2.store.manifest import Manifest, to_bytes
from eigen2.store.objects import Objects, Ref


def source(path: Path, content: bytes, expected: bytes) -> Source:
    path.write_bytes(content)
    return Source(path, len(content), hashlib.sha256(expected).hexdigest())


@pytest.mark.parametrize("content", [b"", b"a", b"abcdef"])
def test_the_right_bytes_come_in_pieces(tmp_path: Path, content: bytes) -> None:
    assert b"".join(pieces(source(tmp_path / "file", content, content), 4)) == content


@pytest.mark.parametrize("content", [b"", b"a", b"abcdef"])
def test_the_last_piece_of_wrong_bytes_is_kept_back(tmp_path: Path, content: bytes) -> None:
    given = list[bytes]()

    def take(some: Iterator[bytes]) -> None:
        given.extend(some)

    with pytest.raises(DamagedStateError, match="damaged"):
        take(pieces(source(tmp_path / "file", content, b"other"), 4))
    assert b"".join(given) == content[: 4 * (max(len(content) - 1, 0) // 4)]


@pytest.mark.parametrize("size", [1000, 2 * PIECE + 1])
def test_no_store_keeps_a_damaged_file(bucket: Bucket, tmp_path: Path, size: int) -> None:
    with pytest.raises(DamagedStateError, match="its content hashes to"):
        bucket.put("key", source(tmp_path / "file", bytes(size), b"other"))
    assert bucket.head("key") is None


def test_a_checkpoint_with_a_damaged_object_stays_here_and_the_others_go_up(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (tmp_path / "bucket").mkdir()
    objects = Objects(run / "objects")
    good, bad = objects.put(b"good"), objects.put(b"bad")
    objects.path(bad.hash).write_bytes(b"BAD")
    write_manifest(run, "previous", {"state/a": good})
    write_manifest(run, "latest", {"state/a": good, "state/b": bad})
    bucket = LocalBucket(parse(f"file://{tmp_path}/bucket"))

    sent = Mirror(run, bucket, "run", f"file://{tmp_path}/bucket/run").send(everything=True)

    assert sent.objects == 1
    assert [sentence.partition(" is damaged")[0] for sentence in sent.damaged] == ["checkpoint 'latest'"]
    there = {entry.key for entry in bucket.list("run/")}
    assert f"run/{object_key(good.hash)}" in there
    assert f"run/{object_key(bad.hash)}" not in there
    assert "run/checkpoints/previous.json" in there
    assert "run/checkpoints/latest.json" not in there


def write_manifest(run: Path, name: str, refs: dict[str, Ref]) -> None:
    manifest = Manifest(name, 1, "2025-01-01T00:00:00Z", refs)
    (run / "checkpoints" / f"{name}.json").write_bytes(to_bytes(manifest))
