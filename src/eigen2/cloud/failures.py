"""From what a server or a client library says to one of the four failures of a bucket, without a secret in it."""

import re
from collections.abc import Callable, Iterable

from eigen2.cloud.bucket import Corrupted, NotThere, Refused, Unreachable
from eigen2.cloud.location import Location
from eigen2.errors import ConfigError, Eigen2Error

MISSING_BUCKET = {"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "InvalidBucketName"}
DAMAGED_ON_THE_WAY = {"BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch",
                      "Md5Mismatch", "Crc64Mismatch", "IncompleteBody"}  # fmt: skip
"""The server compared checksums and kept nothing; sending again is right."""
TRY_AGAIN = {408, 409, 425, 429}
"""Beside 5xx: timeouts, too many requests, and another request for the same object at the same time."""
TRY_AGAIN_LATER = {"RequestTimeout", "SlowDown", "OperationTimedOut", "ServerBusy"}
"""What some servers say with a 4xx."""
LONGEST = 300
"""Characters of a server's own words that a sentence repeats."""


class NoBucket(NotThere):
    """The bucket itself does not exist, so that nothing can be said about any key."""


SHORTEST = 6


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Without the secrets and without the query strings of urls, which carry signatures.

    What is shorter than a real secret would only make the sentence unreadable.
    """
    for secret in sorted((each for each in secrets if len(each) >= SHORTEST), key=len, reverse=True):
        text = text.replace(secret, "[hidden]")
    return re.sub(r"(https?://[^\s?\"'<>]+)\?[^\s\"'<>]*", r"\1", text)


class Failures:
    """Sentences about one location. `secrets` are never repeated."""

    def __init__(self, location: Location, credentials: str, secrets: Iterable[str] = ()) -> None:
        self._location = location
        self._credentials = credentials
        """Which variables and files hold the credentials, in the user's words."""
        self._secrets = tuple(secrets)

    def answered(
        self, action: str, key: str | None, status: int, code: str = "", message: str = ""
    ) -> Eigen2Error:
        """What an HTTP status means. `code` is the server's own word for it, if it gave one."""
        words = ": ".join(part for part in (code, message) if part) or "no explanation"
        reason = f"the server answered HTTP {status}, {words}"
        if code in MISSING_BUCKET or (status == 404 and key is None):
            return self.no_bucket()
        if status == 404 and key is not None:
            return NotThere(self._hide(f"{self._location.url}/{key} does not exist."))
        if code in DAMAGED_ON_THE_WAY:
            return self.unanswered(action, f"the data was damaged on the way; {reason}")
        if status in TRY_AGAIN or status >= 500 or code in TRY_AGAIN_LATER:
            return self.unanswered(action, reason)
        return self.refused(action, reason)

    def unanswered(self, action: str, reason: str) -> Unreachable:
        """No answer, half of one, or one that says: later."""
        trouble = "the disk" if self._location.scheme == "file" else "the network and the server"
        return Unreachable(
            self._hide(
                f"Could not {action} at {self._location.url}: {_short(reason)}. "
                f"Check {trouble}; the request can be repeated."
            )
        )

    def refused(self, action: str, reason: str) -> Refused:
        return Refused(
            self._hide(
                f"{self._location.url} refused to {action}: {_short(reason)}. Check {self._credentials}."
            )
        )

    def damaged(self, key: str, delete: Callable[[str], None]) -> Corrupted:
        """The store holds something else than was sent: removed, so that no listing shows it as stored."""
        removed = "it was removed"
        try:
            delete(key)
        except (Unreachable, ConfigError):
            removed = "it could not be removed"
        return Corrupted(
            self._hide(
                f"{self._location.url}/{key} differs from what was sent; {removed}. "
                "Upload it again, and suspect the server if it happens again."
            )
        )

    def no_bucket(self) -> NoBucket:
        kind = {"az": "container", "file": "directory"}.get(self._location.scheme, "bucket")
        return NoBucket(
            self._hide(
                f"There is no {kind} {self._location.bucket} for {self._location.url}; create the {kind}, or correct its name."
            )
        )

    def _hide(self, text: str) -> str:
        return redacted(text, self._secrets)


def _short(text: str) -> str:
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
