"""Where Google's credentials come from: a key file that a variable names, or what the Google tools have stored."""

import json
from collections.abc import Mapping
from pathlib import Path

import google.auth
from google.auth import exceptions
from google.auth.credentials import AnonymousCredentials, Credentials
from google.oauth2 import credentials as user
from google.oauth2 import service_account

from eigen2.cloud.bucket import Refused

CREDENTIALS = (
    "GOOGLE_APPLICATION_CREDENTIALS (the path of a key file), or run `gcloud auth application-default login`"
)
SCOPES = ["https://www.googleapis.com/auth/devstorage.read_write"]


def credentials(environ: Mapping[str, str]) -> Credentials:
    """An emulator takes anyone; a key file comes before what a login or the machine itself offers."""
    if environ.get("STORAGE_EMULATOR_HOST"):
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    for variable in ("GOOGLE_APPLICATION_CREDENTIALS", "GCS_CREDENTIALS"):
        if environ.get(variable):
            return _from_file(variable, Path(environ[variable]).expanduser())
    return _default("no Google credentials were found")


def _from_file(variable: str, path: Path) -> Credentials:
    """Nothing of the file's content is repeated when it cannot be used."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise Refused(
            f"{variable} names {path}, which cannot be read ({failure.strerror}); correct the path or its permissions."
        ) from None
    except ValueError:
        raise Refused(f"{variable} names {path}, which is not JSON; download the key file again.") from None
    kind = fields.get("type") if isinstance(fields, dict) else None
    try:
        if kind == "service_account":
            return service_account.Credentials.from_service_account_info(fields, scopes=SCOPES)  # type: ignore[no-any-return,no-untyped-call]
        if kind == "authorized_user":
            return user.Credentials.from_authorized_user_info(fields, scopes=SCOPES)  # type: ignore[no-any-return,no-untyped-call]
    except (ValueError, KeyError, exceptions.GoogleAuthError) as failure:
        raise Refused(
            f"{variable} names {path}, which is not a complete key file ({type(failure).__name__}); download it again."
        ) from None
    if kind is None or variable != "GOOGLE_APPLICATION_CREDENTIALS":
        raise Refused(f"{variable} names {path}, which is not a service account key; download one.")
    return _default(f"{variable} names {path}, which cannot be used")


def _default(otherwise: str) -> Credentials:
    try:
        found, _ = google.auth.default(scopes=SCOPES)
    except exceptions.GoogleAuthError as failure:
        raise Refused(f"{otherwise} ({type(failure).__name__}). Set {CREDENTIALS}.") from None
    return found
