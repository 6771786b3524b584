"""Credentials are found where the providers' own tools keep them, and are never shown."""

import json
import secrets
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from servers import Open, Place, Served, azure_environment, s3_environment
from stubs import always

from eigen2.cloud import aws, azure
from eigen2.cloud.bucket import Bucket, Refused, Unreachable
from eigen2.cloud.location import parse
from eigen2.cloud.opening import open_bucket
from eigen2.errors import Eigen2Error


def test_aws_keys_in_the_environment_come_first(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id=F\naws_secret_access_key=G\n")
    files = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"), "AWS_CONFIG_FILE": "/nowhere"}
    keys = {
        "AWS_ACCESS_KEY_ID": "A",
        "AWS_SECRET_ACCESS_KEY": "B",
        "AWS_SESSION_TOKEN": "C",
        "AWS_REGION": "r",
    }
    assert aws.settings(files | keys) == aws.AwsSettings("A", "B", "C", "r", None)
    assert aws.settings(files) == aws.AwsSettings("F", "G", None, "us-east-1", None)


def test_aws_profiles_are_read_from_the_shared_files(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        "[work]\naws_access_key_id = A\naws_secret_access_key = B%/+=\naws_session_token = C\n"
    )
    (tmp_path / "config").write_text("[default]\nregion = x\n[profile work]\nregion = eu-central-1\n")
    environ = {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_PROFILE": "work",
        "AWS_ENDPOINT_URL": "http://one",
        "AWS_ENDPOINT_URL_S3": "http://two/",
    }
    assert aws.settings(environ) == aws.AwsSettings("A", "B%/+=", "C", "eu-central-1", "http://two")


def test_no_aws_credentials_are_refused_at_once_and_the_places_are_named() -> None:
    with pytest.raises(Refused, match=r"AWS_ACCESS_KEY_ID.*aws-credentials.*AWS_EC2_METADATA_DISABLED"):
        open_bucket(parse("s3://bucket"), timeout_seconds=1)


@pytest.mark.parametrize(
    "content",
    ["aws_secret_access_key = hunter2\n", "[default]\nhunter2\n", "[default\nhunter2", "\xff\xfehunter2"],
)
def test_a_broken_aws_file_is_named_and_not_repeated(content: str, tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(Refused, match="credentials") as refusal:
        aws.settings({"AWS_SHARED_CREDENTIALS_FILE": str(path), "AWS_CONFIG_FILE": "/nowhere"})
    assert "hunter2" not in shown(refusal.value)


def test_half_an_aws_key_is_refused() -> None:
    with pytest.raises(Refused, match="AWS_SECRET_ACCESS_KEY is missing"):
        aws.settings({"AWS_ACCESS_KEY_ID": "A"})


def test_an_azure_connection_string_comes_first() -> None:
    text = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k==;EndpointSuffix=core.windows.net"
    found = azure.settings({"AZURE_STORAGE_CONNECTION_STRING": text, "AZURE_STORAGE_SAS_TOKEN": "sig=s"})
    assert (found.account, found.key, found.signature, found.endpoint) == ("a", "k==", None, None)
    signed = "BlobEndpoint=http://h/a/;AccountName=a;SharedAccessSignature=sv=1&sig=s%2B"
    found = azure.settings({"AZURE_STORAGE_CONNECTION_STRING": signed, "AZURE_STORAGE_ACCOUNT_KEY": "k"})
    assert (found.account, found.key, found.signature, found.endpoint) == (
        "a",
        None,
        "sv=1&sig=s%2B",
        "http://h/a",
    )
    assert {"sv=1&sig=s%2B", "s%2B", "k", signed} <= set(found.secrets)


@pytest.mark.parametrize("name", ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"])
def test_azure_variables_name_account_and_key(name: str) -> None:
    found = azure.settings({"AZURE_STORAGE_ACCOUNT": "a", name: "k"})
    assert (found.account, found.key, found.endpoint) == ("a", "k", None)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"AZURE_STORAGE_CONNECTION_STRING": "hunter2"},
        {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=a;hunter2"},
        {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=hunter2"},
        {"AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_ACCOUNT_KEY": "hunter2 is no base64!"},
    ],
)
def test_azure_variables_that_are_not_enough_are_refused(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Refused, match="AZURE_STORAGE") as refusal:
        open_bucket(parse("az://container"), timeout_seconds=1)
    assert "hunter2" not in shown(refusal.value)


@pytest.mark.parametrize("variable", ["GOOGLE_APPLICATION_CREDENTIALS", "GCS_CREDENTIALS"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read"),
        ("hunter2", "is not JSON"),
        ('["hunter2"]', "not a service account key"),
        ('{"type": "service_account", "private_key": "hunter2"}', "not a complete key file"),
        (
            json.dumps(
                {"type": "service_account", "client_email": "e", "token_uri": "u", "private_key": "hunter2"}
            ),
            "not a complete key file",
        ),
        ('{"type": "authorized_user", "refresh_token": "hunter2"}', "not a complete key file"),
    ],
)
def test_a_google_key_file_that_cannot_be_used_is_named_and_not_repeated(
    variable: str, content: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "key.json").write_text(content)
    monkeypatch.setenv(variable, str(tmp_path / "key.json"))
    with pytest.raises(Refused, match=f"{variable} names .*key.json, which .*{reason}") as refusal:
        open_bucket(parse("gs://bucket"), timeout_seconds=1)
    assert "hunter2" not in shown(refusal.value)


def test_no_google_credentials_are_refused_at_once() -> None:
    with pytest.raises(Refused, match="GOOGLE_APPLICATION_CREDENTIALS"):
        open_bucket(parse("gs://bucket"), timeout_seconds=1)


def test_a_google_login_that_has_expired_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refresh = secrets.token_hex(16)
    answer = json.dumps({"error": "invalid_grant", "error_description": "Token has been expired or revoked."})
    with always(400, answer.encode()) as address:
        fields = {
            "type": "authorized_user",
            "client_id": "c",
            "client_secret": refresh,
            "refresh_token": refresh,
        }
        (tmp_path / "key.json").write_text(json.dumps(fields))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
        bucket = open_bucket(parse("gs://bucket"), timeout_seconds=5)
        bucket._bucket.client._credentials._token_uri = f"http://{address}/token"  # type: ignore[attr-defined]
        with pytest.raises(Refused, match="expired or revoked") as refusal:
            bucket.put("key", b"x")
    assert refresh not in shown(refusal.value)


def leaking(secret: str) -> bytes:
    """What a careless server might answer."""
    return f"<Error><Code>InvalidArgument</Code><Message>{secret} at http://h/p?sig={secret}</Message></Error>".encode()


def azure_signed(address: str, secret: str) -> dict[str, str]:
    endpoint = f"BlobEndpoint=http://{address}/a;AccountName=a"
    return {"AZURE_STORAGE_CONNECTION_STRING": f"{endpoint};SharedAccessSignature=sv=2024-01-01&sig={secret}"}


def aws_token(address: str, secret: str) -> dict[str, str]:
    return {**s3_environment(address), "AWS_SESSION_TOKEN": secret}


ENVIRONMENTS: dict[str, Callable[[str, str], dict[str, str]]] = {
    "s3-secret": s3_environment,
    "s3-token": aws_token,
    "az-key": azure_environment,
    "az-signature": azure_signed,
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("status", [400, 403, 404, 409, 500])
def test_no_sentence_shows_a_secret(name: str, status: int, opened: Open) -> None:
    secret = secrets.token_hex(32)
    with always(status, leaking(secret)) as address:
        served = Served(
            name, f"{name[:2]}://bucket/prefix", address, ENVIRONMENTS[name](address, secret), None
        )
        bucket = opened(served)
        for failure in failures(bucket):
            assert secret not in shown(failure)
            assert "\n" not in str(failure)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_no_sentence_about_the_network_shows_a_secret(name: str, opened: Open) -> None:
    secret = secrets.token_hex(32)
    with always(500) as address:
        served = Served(name, f"{name[:2]}://bucket", address, ENVIRONMENTS[name](address, secret), None)
    for failure in failures(opened(served)):
        assert isinstance(failure, Unreachable)
        assert secret not in shown(failure)


def test_a_servers_own_words_are_kept(place: Place, opened: Open) -> None:
    body = b"<Error><Code>QuotaExceeded</Code><Message>Ask for more.</Message></Error>"
    wanted = "HTTP 403, QuotaExceeded: Ask for more. Check AWS_ACCESS_KEY_ID"
    with always(403, body) as address, pytest.raises(Refused, match=wanted):
        opened(place("moto").through(address)).put("key", b"x")


def failures(bucket: Bucket) -> list[Exception]:
    found: list[Exception] = []
    for call in (
        lambda: bucket.put("key", b"x"),
        lambda: list(bucket.read("key")),
        lambda: list(bucket.list()),
    ):
        with pytest.raises(Eigen2Error) as failure:
            call()
        found.append(failure.value)
    return found


def shown(failure: BaseException) -> str:
    """All that a log would show of it."""
    return "".join(traceback.format_exception(failure))
