"""Where S3's credentials, region and endpoint come from: the environment, then the files the AWS tools share."""

import configparser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eigen2.cloud.bucket import Refused

CREDENTIALS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (with AWS_SESSION_TOKEN for temporary ones), or AWS_PROFILE in ~/.aws/credentials, and AWS_REGION"


@dataclass(frozen=True)
class AwsSettings:
    """What an S3 client is made with. `key` None: the client finds web identity, container or instance roles."""

    key: str | None
    secret: str | None
    token: str | None
    region: str
    endpoint: str | None

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(value for value in (self.secret, self.token) if value)


def settings(environ: Mapping[str, str]) -> AwsSettings:
    profile = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"
    key, secret, token = _keys(environ, profile)
    if key is None and environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true" and not _roles(environ):
        raise Refused(
            "No AWS credentials were found: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, "
            f"{_credentials_file(environ)} has no keys for profile {profile}, and AWS_EC2_METADATA_DISABLED is true. "
            "Set one of them."
        )
    return AwsSettings(key, secret, token, _region(environ, profile), _endpoint(environ))


def _keys(environ: Mapping[str, str], profile: str) -> tuple[str | None, str | None, str | None]:
    key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if key and secret:
        return key, secret, environ.get("AWS_SESSION_TOKEN") or None
    if key or secret:
        missing = "AWS_SECRET_ACCESS_KEY" if key else "AWS_ACCESS_KEY_ID"
        raise Refused(f"Only one half of the AWS key is set: {missing} is missing.")
    found = _section(_credentials_file(environ), profile)
    if found.get("aws_access_key_id") and found.get("aws_secret_access_key"):
        return (
            found["aws_access_key_id"],
            found["aws_secret_access_key"],
            found.get("aws_session_token") or None,
        )
    return None, None, None


def _region(environ: Mapping[str, str], profile: str) -> str:
    section = "default" if profile == "default" else f"profile {profile}"
    return (
        environ.get("AWS_REGION")
        or environ.get("AWS_DEFAULT_REGION")
        or _section(_file(environ, "AWS_CONFIG_FILE", "config"), section).get("region")
        or "us-east-1"
    )


def _endpoint(environ: Mapping[str, str]) -> str | None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        if environ.get(name):
            return environ[name].rstrip("/")
    return None


def _roles(environ: Mapping[str, str]) -> bool:
    """Whether the client can get credentials without asking the machine's metadata server."""
    names = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
             "AWS_CONTAINER_CREDENTIALS_FULL_URI")  # fmt: skip
    return any(environ.get(name) for name in names) or environ.get("AWS_SKIP_SIGNATURE", "").lower() == "true"


def _credentials_file(environ: Mapping[str, str]) -> Path:
    return _file(environ, "AWS_SHARED_CREDENTIALS_FILE", "credentials")


def _file(environ: Mapping[str, str], variable: str, name: str) -> Path:
    return Path(environ.get(variable) or f"~/.aws/{name}").expanduser()


def _section(path: Path, name: str) -> Mapping[str, str]:
    """One profile of a file, empty when there is none. A line that cannot be read is named by its number only."""
    parser = configparser.RawConfigParser()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as failure:
        raise Refused(
            f"{path} cannot be read ({type(failure).__name__}); correct it or its permissions."
        ) from None
    try:
        parser.read_string(text)
    except configparser.Error as failure:
        line = getattr(failure, "lineno", None)
        where = f" at line {line}" if isinstance(line, int) else ""
        raise Refused(f"{path} is not a valid AWS file{where}; correct it.") from None
    return parser[name] if parser.has_section(name) else {}
