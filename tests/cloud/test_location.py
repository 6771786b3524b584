"""Urls and variables name one place each, and what may hold a secret is refused without being repeated."""

from pathlib import Path

import pytest

from eigen2.cloud.location import Location, from_environment, parse
from eigen2.config import CloudConfig
from eigen2.errors import ConfigError
from eigen2.harness.syncing import opened


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("gs://bucket", Location("gs", "bucket", "")),
        ("gs://bucket/", Location("gs", "bucket", "")),
        ("s3://bucket/prefix/run/", Location("s3", "bucket", "prefix/run")),
        ("az://container/a b/100%25+é", Location("az", "container", "a b/100%25+é")),
        ("file:///data/backup/", Location("file", "/data/backup", "")),
    ],
)
def test_a_url_names_a_place(url: str, location: Location) -> None:
    assert parse(url) == location
    assert parse(location.url) == location
    assert location.url == url.rstrip("/")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("bucket/prefix", "begins with gs://"),
        ("/data/backup", "begins with gs://"),
        ("https://bucket/prefix", "not with https://"),
        ("S3://bucket", "begins with gs://"),
        ("s3://", "names no bucket"),
        ("s3:///prefix", "names no bucket"),
        ("file://data/backup", "three slashes"),
        ("file:///", "three slashes"),
        ("s3://bucket//prefix", "empty part"),
        ("s3://bucket/../other", "empty part, `.` or `..`"),
        ("file:///data/../etc", "empty part, `.` or `..`"),
        ("s3://..", "empty part, `.` or `..`"),
        ("s3://bucket/a\nb", "control character"),
        ("s3://buc\x00ket/a", "control character"),
    ],
)
def test_a_url_that_names_no_place_is_refused_in_one_sentence(url: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse(url)
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert "\x00" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIDUSER:hunter2@bucket/prefix",
        "s3://hunter2@bucket/prefix",
        "az://container/prefix?sv=2024&sig=hunter2",
        "gs://bucket?token=hunter2",
        "gs://bucket/prefix#hunter2",
        "https+hunter2secret_too!://x",
        "file://user:hunter2@/data",
    ],
)
def test_secrets_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse(url)
    assert "hunter2" not in str(refusal.value)
    assert "AKIDUSER" not in str(refusal.value)


def test_places_lie_below_places() -> None:
    assert parse("s3://bucket").below("run").url == "s3://bucket/run"
    assert parse("s3://bucket/runs").below("a/b").url == "s3://bucket/runs/a/b"
    assert parse("file:///data").below("run").url == "file:///data/run"
    for name in ("", "..", "a//b", "/a", "a/", "a?b", "a#b", "a\tb"):
        with pytest.raises(ConfigError):
            parse("s3://bucket").below(name)


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"CLOUD_PROVIDER": "gcs", "CLOUD_BUCKET": "b"}, "gs://b/eigen2"),
        ({"CLOUD_PROVIDER": "S3", "CLOUD_BUCKET": "b", "CLOUD_PROJECT": "p/q"}, "s3://b/p/q"),
        ({"CLOUD_PROVIDER": "azure", "CLOUD_BUCKET": "b", "CLOUD_PROJECT": ""}, "az://b/eigen2"),
        ({"CLOUD_PROVIDER": "local", "CLOUD_BUCKET": "/data", "CLOUD_PROJECT": "p"}, "file:///data/p"),
    ],
)
def test_the_original_variables_name_a_place(environ: dict[str, str], url: str) -> None:
    location = from_environment(environ)
    assert location is not None
    assert location.url == url


def test_a_project_lies_below_a_local_directory() -> None:
    environ = {"CLOUD_PROVIDER": "local", "CLOUD_BUCKET": "/data"}
    assert from_environment(environ) == Location("file", "/data", "eigen2")


@pytest.mark.parametrize("environ", [{}, {"CLOUD_PROVIDER": "local"}, {"CLOUD_PROVIDER": "", "CLOUD_BUCKET": " "}, {"CLOUD_PROJECT": "p"}])  # fmt: skip
def test_no_cloud_is_asked_for(environ: dict[str, str]) -> None:
    assert from_environment(environ) is None


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"CLOUD_PROVIDER": "gcs"}, "CLOUD_BUCKET is not set"),
        ({"CLOUD_BUCKET": "b"}, "CLOUD_PROVIDER is not"),
        ({"CLOUD_PROVIDER": "dropbox", "CLOUD_BUCKET": "b"}, "none of gcs, s3, azure and local"),
        ({"CLOUD_PROVIDER": "s3", "CLOUD_BUCKET": "s3://b"}, "the bucket's name alone"),
        ({"CLOUD_PROVIDER": "s3", "CLOUD_BUCKET": "b", "CLOUD_PROJECT": "../x"}, "`..`"),
    ],
)
def test_variables_that_contradict_each_other_are_refused(environ: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        from_environment(environ)
    assert reason in str(refusal.value)


def test_runs_are_not_copied_onto_themselves(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    with pytest.raises(ConfigError, match="name another place for the copy"):
        opened(parse(f"file://{tmp_path}/link"), CloudConfig(), tmp_path / "runs")
    opened(parse(f"file://{tmp_path}/copy"), CloudConfig(), tmp_path / "runs")
