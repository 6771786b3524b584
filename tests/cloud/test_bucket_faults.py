"""Nothing counts as stored that is not, whatever happens on the way."""

import itertools
import os
import threading
from pathlib import Path

import pytest
from servers import BUCKET, Open, Place, Proxied, Served, s3_environment
from stubs import honest, loose_s3, one_bit, opaque

from eigen2.cloud.bucket import Bucket, Corrupted, Refused, Source, Unreachable

MEBIBYTE = 2**20
KINDS = ("gcs", "moto", "rclone", "azurite")
each_kind = pytest.mark.parametrize("kind", KINDS)


def keys(bucket: Bucket) -> list[str]:
    return [entry.key for entry in bucket.list()]


def large(directory: Path, size: int = 17 * MEBIBYTE) -> Source:
    path = directory / "large"
    path.write_bytes(os.urandom(MEBIBYTE) * (size // MEBIBYTE))
    return Source(path, size)


@each_kind
def test_a_connection_cut_in_the_middle_stores_nothing(
    kind: str, place: Place, opened: Open, proxied: Proxied, tmp_path: Path
) -> None:
    served, proxy = proxied(place(kind))
    bucket = opened(served)
    source = large(tmp_path)
    proxy.cut_after = 100_000
    with pytest.raises(Unreachable):
        bucket.put("small", os.urandom(200_000))
    with pytest.raises(Unreachable):
        bucket.put("large", source)
    proxy.calm()
    assert keys(bucket) == []
    bucket.put("large", source)
    assert b"".join(bucket.read("large")) == source.path.read_bytes()


@each_kind
def test_a_download_that_is_cut_is_not_taken_for_a_whole_object(
    kind: str, place: Place, opened: Open, proxied: Proxied
) -> None:
    served, proxy = proxied(place(kind))
    bucket = opened(served)
    data = os.urandom(4 * MEBIBYTE)
    bucket.put("key", data)
    proxy.cut_reply_after = MEBIBYTE
    with pytest.raises(Unreachable):
        bucket.get("key", limit=len(data))
    proxy.calm()
    assert bucket.get("key", limit=len(data)) == data


@each_kind
def test_a_stalled_server_is_given_up_after_the_timeout(
    kind: str, place: Place, opened: Open, proxied: Proxied
) -> None:
    served, proxy = proxied(place(kind))
    bucket = opened(served, timeout_seconds=0.3)
    proxy.stall()
    for call in (lambda: bucket.put("key", b"x"), lambda: list(bucket.read("key")), lambda: keys(bucket)):
        with pytest.raises(Unreachable):
            call()
    # What the proxy held back must not arrive after all.
    proxy.go_down()
    proxy.come_up()
    proxy.resume()
    assert keys(opened(served)) == []


@each_kind
def test_a_server_that_comes_back_is_used_again(
    kind: str, place: Place, opened: Open, proxied: Proxied
) -> None:
    served, proxy = proxied(place(kind))
    bucket = opened(served)
    bucket.put("first", b"1")
    proxy.go_down()
    with pytest.raises(Unreachable):
        bucket.put("second", b"2")
    proxy.come_up()
    bucket.put("second", b"2")
    proxy.answer(503, times=10)
    with pytest.raises(Unreachable):
        bucket.put("third", b"3")
    proxy.calm()
    assert sorted(keys(bucket)) == ["first", "second"]


@each_kind
def test_a_slow_link_is_no_fault(kind: str, place: Place, opened: Open, proxied: Proxied) -> None:
    served, proxy = proxied(place(kind))
    bucket = opened(served)
    proxy.bytes_per_second = 2 * MEBIBYTE
    data = os.urandom(MEBIBYTE)
    bucket.put("key", data)
    assert b"".join(bucket.read("key")) == data
    assert proxy.sent > MEBIBYTE


@each_kind
@pytest.mark.parametrize("size", [1000, 9 * MEBIBYTE])
def test_a_bit_that_flips_on_the_way_is_never_a_success(
    kind: str, size: int, place: Place, opened: Open, proxied: Proxied
) -> None:
    """rclone and Google compare checksums; moto and azurite store what arrived, and reading it back tells."""
    served, proxy = proxied(place(kind))
    bucket = opened(served)
    data = os.urandom(size)
    # The client of S3 repeats a request that the server refused with 5xx once.
    proxy.flip(times=2, at_least=900)
    with pytest.raises((Corrupted, Unreachable, Refused)):
        bucket.put("key", data)
    assert keys(bucket) == []
    proxy.calm()
    bucket.put("key", data)
    assert b"".join(bucket.read("key")) == data


def stub(address: str) -> Served:
    return Served("stub", f"s3://{BUCKET}", address, s3_environment(address), None)


def test_an_etag_that_says_nothing_makes_the_object_be_read_back(opened: Open) -> None:
    with loose_s3(etag=opaque, damage=lambda data: data) as (address, stored):
        opened(stub(address)).put("key", b"data")
        assert list(stored.values()) == [b"data"]
    with loose_s3(etag=opaque, damage=one_bit) as (address, stored):
        with pytest.raises(Corrupted, match="differs from what was sent; it was removed"):
            opened(stub(address)).put("key", b"data")
        assert stored == {}


def test_a_server_that_lies_about_what_it_stored_is_found_by_reading(opened: Open) -> None:
    """A right ETag for other bytes: no answer to the put can show it. Whoever reads the object compares its hash with
    the one that names it."""
    with loose_s3(etag=honest, damage=one_bit) as (address, _):
        bucket = opened(stub(address))
        bucket.put("key", b"data")
        assert bucket.get("key", limit=4) != b"data"


def test_a_put_that_was_replaced_by_another_writer_is_not_ours(opened: Open) -> None:
    """A server without If-None-Match: what is there afterwards decides."""
    with loose_s3(etag=honest, damage=lambda data: b"the other's") as (address, _):
        assert not opened(stub(address)).put_if_absent("lease", b"mine")


def test_one_large_object_at_a_time(place: Place, opened: Open, tmp_path: Path) -> None:
    """So that memory stays bounded, however many threads upload."""
    bucket = opened(place("rclone"))
    source = large(tmp_path)
    order: list[int] = []

    def run(number: int) -> None:
        bucket.put(f"key-{number}", source, lambda count: order.append(number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(order) == 9
    assert len(list(itertools.groupby(order))) == 3
    assert sorted(keys(bucket)) == ["key-0", "key-1", "key-2"]
