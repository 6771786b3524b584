"""A bucket that does not answer, does not know us or does not exist is told apart, in every call."""

import base64
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from servers import Open, Place, Served, azure_environment, s3_environment
from stubs import always

from eigen2.cloud.bucket import Bucket, Corrupted, NotThere, Refused, Unreachable
from eigen2.cloud.location import parse
from eigen2.cloud.opening import open_bucket, probe
from eigen2.errors import ConfigError


def test_a_missing_bucket_is_named(served: Served, opened: Open) -> None:
    scheme, _, rest = served.url.partition("://")
    wrong = f"file://{rest}/no/such" if served.kind == "local" else f"{scheme}://no-such-bucket/prefix"
    name = "no/such" if served.kind == "local" else "no-such-bucket"
    bucket = opened(replace(served, url=wrong))
    for call in (lambda: bucket.put("key", b"x"), lambda: list(bucket.list()), lambda: probe(bucket)):
        with pytest.raises(NotThere, match=f"no (bucket|container|directory) .*{name}"):
            call()


@pytest.mark.parametrize("kind", ["rclone", "azurite"])
def test_wrong_credentials_are_refused_until_they_are_renewed(
    kind: str, place: Place, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = place(kind)
    wrong = {
        "rclone": s3_environment(served.address, secret="WRONGSECRET1234567"),
        "azurite": azure_environment(served.address, key=base64.b64encode(b"wrong" * 13).decode()),
    }
    bucket = opened(replace(served, environment=wrong[kind]))
    for call in every_call(bucket):
        with pytest.raises(Refused, match="Check A"):
            call()
    for name, value in served.environment.items():
        monkeypatch.setenv(name, value)
    bucket.renew()
    bucket.put("key", b"x")
    assert [entry.key for entry in bucket.list()] == ["key"]


@pytest.mark.parametrize("kind", ["gcs", "moto", "azurite"])
@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_knows_us_not_refuses(kind: str, status: int, place: Place, opened: Open) -> None:
    with always(status) as address:
        bucket = opened(place(kind).through(address))
        for call in every_call(bucket):
            with pytest.raises(Refused, match=f"HTTP {status}|cannot be refreshed"):
                call()


@pytest.mark.parametrize("kind", ["gcs", "moto", "azurite"])
@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_in_trouble_is_unreachable(kind: str, status: int, place: Place, opened: Open) -> None:
    with always(status) as address:
        bucket = opened(place(kind).through(address))
        for call in every_call(bucket):
            with pytest.raises(Unreachable, match=f"HTTP {status}"):
                call()


@pytest.mark.parametrize("kind", ["gcs", "moto", "azurite"])
def test_nobody_listening_is_unreachable(kind: str, place: Place, opened: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    bucket = opened(place(kind).through(address))
    for call in every_call(bucket):
        with pytest.raises(Unreachable, match="refused.*the request can be repeated"):
            call()


def every_call(bucket: Bucket) -> list[Callable[[], object]]:
    return [
        lambda: bucket.put("key", b"x"),
        lambda: bucket.put_if_absent("key", b"x"),
        lambda: list(bucket.read("key")),
        lambda: bucket.head("key"),
        lambda: list(bucket.list()),
        lambda: list(bucket.names()),
        lambda: bucket.delete("key"),
    ]


def test_a_file_where_the_directory_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for url in (f"file://{tmp_path}/file", f"file://{tmp_path}/file/below"):
        bucket = open_bucket(parse(url), timeout_seconds=1)
        with pytest.raises(Refused, match="Check the path and its permissions"):
            bucket.put("key", b"x")


def test_looking_into_a_directory_does_not_make_it(tmp_path: Path) -> None:
    bucket = open_bucket(parse(f"file://{tmp_path}/new"), timeout_seconds=1)
    for call in (lambda: list(bucket.list()), lambda: bucket.delete("key"), lambda: bucket.get("key", 1)):
        with pytest.raises(NotThere, match="no directory"):
            call()
    assert list(tmp_path.iterdir()) == []
    bucket.put("key", b"x")
    assert (tmp_path / "new" / "key").read_bytes() == b"x"


def test_what_a_killed_writer_left_in_a_directory_is_not_listed(tmp_path: Path) -> None:
    bucket = open_bucket(parse(f"file://{tmp_path}"), timeout_seconds=1)
    bucket.put("key", b"x")
    (tmp_path / ".incoming-0123").write_bytes(b"half")
    assert [entry.key for entry in bucket.list()] == ["key"]
    assert list(bucket.names()) == ["key"]


@pytest.mark.parametrize(
    ("url", "package"), [("s3://b", "obstore"), ("az://b", "obstore"), ("gs://b", "google.cloud")]
)
def test_a_missing_package_is_named_with_its_remedy(
    url: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for module in ("eigen2.cloud.obstores", "eigen2.cloud.gcs"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ConfigError, match=r"pip install eigen2\[cloud\]"):
        open_bucket(parse(url), timeout_seconds=1)


def test_a_key_that_can_be_no_file_name_is_said(place: Place, opened: Open) -> None:
    import boto3

    served = place("moto")
    bucket = opened(served)
    bucket.put("run/good", b"x")
    location = parse(served.url)
    client = boto3.client("s3", endpoint_url=f"http://{served.address}", region_name="us-east-1")
    client.put_object(Bucket=location.bucket, Key=f"{location.prefix}/run/../outside", Body=b"x")
    with pytest.raises(Corrupted, match="holds a key that cannot be a file name"):
        list(bucket.list("run/"))
