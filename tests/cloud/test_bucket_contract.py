"""What a bucket promises, shown on every kind of store."""

import hashlib
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from servers import Open, Place, Proxied, Served, start

from eigen2.cloud.bucket import Bucket, Corrupted, NotThere, Source
from eigen2.cloud.opening import probe
from eigen2.errors import ConfigError, DamagedStateError

MEBIBYTE = 2**20
ODD_KEYS = (
    "two words/a b.txt", "ünïcode-日本", "e\u0301", "100%", "a%20b", "a%2Fb", "h#sh", "x#1", "p+lus", "a&b=c?d", "til~de",
    "st*r", "[x]{y}", "quote\"'", "pi|pe", "<x>", ";,:@$!()^`", ".hidden", "..dots", "x" * 200,
)  # fmt: skip


def keys(bucket: Bucket, prefix: str = "") -> list[str]:
    return sorted(entry.key for entry in bucket.list(prefix))


def all_of(bucket: Bucket, key: str) -> bytes:
    return b"".join(bucket.read(key))


def test_what_is_put_is_read_listed_and_deleted(bucket: Bucket) -> None:
    before = datetime.now(UTC) - timedelta(minutes=1)
    bucket.put("runs/one/manifest.json", b"{}")
    assert all_of(bucket, "runs/one/manifest.json") == b"{}"
    assert bucket.get("runs/one/manifest.json", limit=2) == b"{}"
    entry = bucket.head("runs/one/manifest.json")
    assert entry is not None
    assert (entry.key, entry.size) == ("runs/one/manifest.json", 2)
    assert before < entry.modified < datetime.now(UTC) + timedelta(minutes=1)
    assert [(found.key, found.size) for found in bucket.list()] == [(entry.key, 2)]
    bucket.delete("runs/one/manifest.json")
    assert bucket.head("runs/one/manifest.json") is None
    assert keys(bucket) == []
    assert list(bucket.names()) == []


def test_a_second_put_replaces_the_first(bucket: Bucket) -> None:
    bucket.put("latest", b"a longer one")
    bucket.put("latest", b"short")
    assert all_of(bucket, "latest") == b"short"
    entry = bucket.head("latest")
    assert entry is not None
    assert entry.size == 5


def test_a_listing_follows_whole_parts_of_keys(bucket: Bucket) -> None:
    for key in ("run/a", "run/b/c", "run-2/d", "top"):
        bucket.put(key, b"x")
    assert keys(bucket) == ["run-2/d", "run/a", "run/b/c", "top"]
    assert keys(bucket, "run/") == ["run/a", "run/b/c"]
    assert keys(bucket, "nothing/") == []
    assert sorted(bucket.names()) == ["run", "run-2", "top"]
    assert sorted(bucket.names("run/")) == ["a", "b"]
    assert list(bucket.names("nothing/")) == []


def test_places_do_not_see_each_other(served: Served, opened: Open) -> None:
    bucket, neighbour = opened(served), opened(served.below("inside"))
    bucket.put("outside", b"x")
    neighbour.put("key", b"y")
    assert keys(neighbour) == ["key"]
    assert keys(bucket) == ["inside/key", "outside"]


def test_an_empty_object_is_an_object(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    bucket.put("bytes", b"")
    bucket.put("file", Source(tmp_path / "empty", 0))
    assert bucket.put_if_absent("once", b"")
    assert keys(bucket) == ["bytes", "file", "once"]
    assert all_of(bucket, "file") == b""


def test_keys_may_hold_what_file_names_may_hold(served: Served, bucket: Bucket) -> None:
    for key in ODD_KEYS:
        bucket.put(key, key.encode())
    assert keys(bucket) == sorted(ODD_KEYS)
    assert sorted(bucket.names()) == sorted(key.partition("/")[0] for key in ODD_KEYS)
    for key in ODD_KEYS:
        assert all_of(bucket, key) == key.encode()
        assert bucket.head(key) is not None
    if served.stored is not None and served.kind == "local":
        assert served.files() == sorted(ODD_KEYS)
    for key in ODD_KEYS:
        bucket.delete(key)
    assert keys(bucket) == []


@pytest.mark.parametrize("key", ["", "/a", "a//b", "a/", "../a", "a/./b", "line\nbreak", "tab\t", "\udcff"])
def test_a_key_that_is_no_plain_path_is_refused(bucket: Bucket, key: str) -> None:
    for call in (
        lambda: bucket.put(key, b"x"),
        lambda: all_of(bucket, key),
        lambda: bucket.head(key),
        lambda: bucket.delete(key),
        lambda: bucket.put_if_absent(key, b"x"),
    ):
        with pytest.raises(ConfigError):
            call()


def test_a_large_file_goes_in_parts_and_comes_back(bucket: Bucket, tmp_path: Path) -> None:
    data = os.urandom(MEBIBYTE) * 20 + b"tail"
    (tmp_path / "large").write_bytes(data)
    spent: list[int] = []
    bucket.put("large", Source(tmp_path / "large", len(data)), spent.append)
    assert sum(spent) == len(data)
    assert max(spent) <= 8 * MEBIBYTE
    assert hashlib.sha256(all_of(bucket, "large")).digest() == hashlib.sha256(data).digest()


def test_only_the_promised_bytes_of_a_growing_file_are_sent(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(b"line one\nline t")
    spent: list[int] = []
    bucket.put("journal", Source(tmp_path / "journal", 9), spent.append)
    assert all_of(bucket, "journal") == b"line one\n"
    assert spent == [9]


@pytest.mark.parametrize("size", [100, 9 * MEBIBYTE])
def test_a_file_that_shrank_is_damage_and_is_not_stored(bucket: Bucket, tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(b"x" * (size - 1))
    with pytest.raises(DamagedStateError, match="ends 1 bytes early"):
        bucket.put("file", Source(tmp_path / "file", size))
    with pytest.raises(FileNotFoundError):
        bucket.put("file", Source(tmp_path / "gone", size))
    assert keys(bucket) == []


@pytest.mark.parametrize("size", [100, 17 * MEBIBYTE])
def test_an_upload_that_is_not_wanted_any_more_stops(bucket: Bucket, tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(b"x" * size)
    pieces: list[int] = []

    def spend(count: int) -> None:
        pieces.append(count)
        if sum(pieces) == size:
            raise KeyError("superseded")

    with pytest.raises(KeyError, match="superseded"):
        bucket.put("file", Source(tmp_path / "file", size), spend)
    assert keys(bucket) == []
    bucket.put("file", Source(tmp_path / "file", size))
    assert keys(bucket) == ["file"]


def test_put_if_absent_keeps_the_first(bucket: Bucket) -> None:
    assert bucket.put_if_absent("lease", b"mine")
    assert not bucket.put_if_absent("lease", b"yours")
    assert not bucket.put_if_absent("lease", b"mine")
    assert bucket.get("lease", limit=100) == b"mine"


@pytest.mark.parametrize("kind", ["gcs", "moto", "azurite", "local"])
def test_of_two_who_put_at_once_one_wins(kind: str, place: Place, opened: Open) -> None:
    """Not on `rclone serve s3`, which ignores If-None-Match."""
    bucket = opened(place(kind))
    for race in range(5):
        won: list[str] = []
        start = threading.Barrier(2)

        def run(
            name: str, key: str = f"lease-{race}", won: list[str] = won, start: threading.Barrier = start
        ) -> None:
            start.wait()
            if bucket.put_if_absent(key, name.encode()):
                won.append(name)

        threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [bucket.get(f"lease-{race}", limit=10).decode()] == won


def test_several_threads_put_at_once(bucket: Bucket) -> None:
    contents = {f"objects/{number}": os.urandom(1000 + number) for number in range(24)}
    failures: list[BaseException] = []

    def run(first: int) -> None:
        try:
            for number in range(first, 24, 8):
                bucket.put(f"objects/{number}", contents[f"objects/{number}"])
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [threading.Thread(target=run, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert {key: all_of(bucket, key) for key in keys(bucket)} == contents


def test_a_listing_of_many_pages_is_complete(opened: Open, proxied: Proxied, tmp_path: Path) -> None:
    wanted = [f"objects/{number:04}" for number in range(3000)]
    with start("rclone", tmp_path) as server:
        # A server of its own, because it has not yet looked at its directory.
        served, proxy = proxied(server)
        assert served.stored is not None
        (served.stored / "objects").mkdir()
        for key in wanted:
            (served.stored / key).touch()
        bucket = opened(served)
        assert keys(bucket) == wanted
        assert proxy.count("GET", "list-type") >= 3
        assert sorted(bucket.names("objects/")) == [key.removeprefix("objects/") for key in wanted]


def test_what_is_not_there(bucket: Bucket) -> None:
    bucket.put("there", b"x")
    assert bucket.head("absent") is None
    bucket.delete("absent")
    with pytest.raises(NotThere, match="absent"):
        all_of(bucket, "absent")
    with pytest.raises(NotThere, match="absent"):
        bucket.get("absent", limit=1)


def test_a_small_object_that_is_too_large_is_damage(bucket: Bucket) -> None:
    bucket.put("manifest", b"x" * 100)
    with pytest.raises(Corrupted, match="manifest is larger than the 99 bytes"):
        bucket.get("manifest", limit=99)


def test_the_probe_leaves_nothing_and_tells_the_servers_time(bucket: Bucket) -> None:
    assert abs(probe(bucket) - datetime.now(UTC)) < timedelta(minutes=1)
    assert keys(bucket) == []
