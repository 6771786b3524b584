"""Where Azure's account, credentials and endpoint come from: a connection string, or single variables."""

from collections.abc import Mapping
from dataclasses import dataclass

from eigen2.cloud.bucket import Refused

CREDENTIALS = "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and AZURE_TENANT_ID"
ACCOUNT = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
KEY = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCESS_KEY")
SIGNATURE = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
OTHER_SECRETS = ("AZURE_CLIENT_SECRET", "AZURE_STORAGE_CLIENT_SECRET", "AZURE_STORAGE_TOKEN",
                 "AZURE_STORAGE_MASTER_KEY", "AZURE_STORAGE_CONNECTION_STRING")  # fmt: skip
"""What the client reads by itself, and what must never be shown."""


@dataclass(frozen=True)
class AzureSettings:
    """What an Azure client is made with; without key and signature it looks for an identity itself."""

    account: str
    key: str | None
    signature: str | None
    endpoint: str | None
    secrets: tuple[str, ...]


def settings(environ: Mapping[str, str]) -> AzureSettings:
    fields = _connection(environ.get("AZURE_STORAGE_CONNECTION_STRING", ""))
    account = fields.get("accountname") or _first(environ, ACCOUNT)
    # A key beside a signature would win inside the client, so a connection string is used alone.
    key = fields.get("accountkey") if fields else _first(environ, KEY)
    signature = fields.get("sharedaccesssignature") if fields else _first(environ, SIGNATURE)
    endpoint = (
        fields.get("blobendpoint")
        or _suffixed(fields, account)
        or _first(environ, ("AZURE_STORAGE_ENDPOINT",))
    )
    if not account and endpoint and fields:
        account = endpoint.split("//")[-1].split(".")[0]
    if not account:
        raise Refused(f"No Azure storage account is named; set {CREDENTIALS}.")
    secrets = [key, signature, *(environ.get(name) for name in (*KEY, *SIGNATURE, *OTHER_SECRETS))]
    if signature:
        secrets += [part.partition("=")[2] for part in signature.split("&") if part.startswith("sig=")]
    return AzureSettings(
        account, key, signature, endpoint.rstrip("/") if endpoint else None, tuple(filter(None, secrets))
    )


def _connection(text: str) -> dict[str, str]:
    """`AccountName=a;AccountKey=b` as a dictionary with lower-case names."""
    fields: dict[str, str] = {}
    for field in filter(None, (part.strip() for part in text.split(";"))):
        name, separator, value = field.partition("=")
        if not separator:
            raise Refused(
                "AZURE_STORAGE_CONNECTION_STRING is not a list of Name=Value with ; between; copy it again."
            )
        fields[name.strip().lower()] = value
    if fields and not fields.keys() & {"accountkey", "sharedaccesssignature"}:
        raise Refused(
            "AZURE_STORAGE_CONNECTION_STRING holds neither AccountKey nor SharedAccessSignature; copy it again."
        )
    return fields


def _suffixed(fields: Mapping[str, str], account: str | None) -> str | None:
    """The endpoint of a sovereign cloud; None for the usual one, which the client knows."""
    suffix = fields.get("endpointsuffix")
    if not suffix or suffix == "core.windows.net" or not account:
        return None
    return f"{fields.get('defaultendpointsprotocol', 'https')}://{account}.blob.{suffix}"


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)
