"""Google Cloud Storage, through google-cloud-storage.

What proves a put: the server's own MD5 of the object comes back and is compared with ours. An answer without one makes
the object be read back.
"""

import base64
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import requests
import urllib3
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud import storage
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse

from eigen2.cloud import google_login
from eigen2.cloud.bucket import Bucket, Entry, NotThere, Source
from eigen2.cloud.failures import Failures, NoBucket
from eigen2.cloud.keys import checked
from eigen2.cloud.location import Location
from eigen2.cloud.pieces import PIECE, Sent, pieces, sha256, size_of
from eigen2.errors import Eigen2Error

CONNECT_SECONDS = 10
FIELDS = "items(name,size,updated),prefixes,nextPageToken"


class GcsBucket(Bucket):
    """Retrying is the uploader's work: the client repeats no request."""

    def __init__(self, location: Location, timeout_seconds: float) -> None:
        self._location = location
        self._timeout = (CONNECT_SECONDS, timeout_seconds)
        self._failures = Failures(location, google_login.CREDENTIALS)
        self._large = threading.Lock()
        """One large object at a time, so that memory stays bounded."""
        self.renew()

    def renew(self) -> None:
        client = storage.Client(project="eigen2", credentials=google_login.credentials(os.environ))
        self._bucket = client.bucket(self._location.bucket)

    def put(
        self, key: str, source: Source | bytes, spend: Callable[[int], None] = lambda count: None
    ) -> None:
        if size_of(source) <= PIECE:
            self._put(key, source, spend)
            return
        with self._large:
            self._put(key, source, spend)

    def _put(self, key: str, source: Source | bytes, spend: Callable[[int], None]) -> None:
        digest = hashlib.md5(usedforsecurity=False)
        sent = Sent(source, PIECE, spend, digest.update)
        theirs = self._upload(key, Outgoing(sent), size_of(source), sent)
        if theirs is None:
            same = sha256(self.read(key)) == sha256(pieces(source, PIECE))
        else:
            same = base64.b64decode(theirs) == digest.digest()
        if not same:
            raise self._failures.damaged(key, self.delete)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        sent = Sent(data, PIECE, lambda count: None)
        try:
            self._upload(key, Outgoing(sent), len(data), sent, if_generation_match=0)
        except FileExistsError:
            return False
        return True

    def _upload(
        self, key: str, file: "Outgoing", size: int, sent: Sent, if_generation_match: int | None = None
    ) -> str | None:
        """The server's MD5 of what it stored, in base64."""
        blob = self._blob(key)
        # Larger objects go in chunks of this size; the client's own default holds 100 MB in memory.
        blob.chunk_size = PIECE
        try:
            with self._translated("put", key, sent):
                blob.upload_from_file(
                    file,
                    size=size,
                    content_type="application/octet-stream",
                    checksum="md5",
                    if_generation_match=if_generation_match,
                    timeout=self._timeout,
                    retry=None,
                )
        except NotThere:
            raise self._failures.no_bucket() from None
        return blob.md5_hash  # type: ignore[no-any-return]

    def read(self, key: str) -> Iterator[bytes]:
        """In ranges. An object that is replaced meanwhile is found by the hash that its reader expects."""
        blob = self._blob(key)
        start = 0
        while True:
            try:
                with self._translated("get", key):
                    chunk: bytes = blob.download_as_bytes(
                        start=start,
                        end=start + PIECE - 1,
                        raw_download=True,
                        checksum=None,
                        timeout=self._timeout,
                        retry=None,
                    )
            except PastTheEnd:
                return
            if chunk:
                yield chunk
            if len(chunk) < PIECE:
                return
            start += len(chunk)

    def head(self, key: str) -> Entry | None:
        blob = self._blob(key)
        try:
            with self._translated("look up", key):
                blob.reload(timeout=self._timeout, retry=None)
        except NoBucket:
            raise
        except NotThere:
            return None
        return self._entry(blob)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        with self._translated("list", None):
            for blob in self._listing(prefix, delimiter=None):
                yield self._entry(blob)

    def names(self, prefix: str = "") -> Iterator[str]:
        with self._translated("list", None):
            listing = self._listing(prefix, delimiter="/")
            below = len(self._full(prefix))
            for blob in listing:
                yield blob.name[below:]
            # The listing knows all directories only after its last page.
            for directory in sorted(listing.prefixes):
                yield directory[below:].rstrip("/")

    def delete(self, key: str) -> None:
        try:
            with self._translated("delete", key):
                self._blob(key).delete(timeout=self._timeout, retry=None)
        except NoBucket:
            raise
        except NotThere:
            return

    def _listing(self, prefix: str, delimiter: str | None) -> Any:
        return self._bucket.list_blobs(
            prefix=self._full(prefix),
            delimiter=delimiter,
            fields=FIELDS,
            timeout=self._timeout,
            retry=None,
        )

    def _blob(self, key: str) -> storage.Blob:
        return self._bucket.blob(self._full(checked(key)))

    def _full(self, key: str) -> str:
        return f"{self._location.prefix}/{key}" if self._location.prefix else key

    def _entry(self, blob: storage.Blob) -> Entry:
        return Entry(blob.name[len(self._full("")) :], blob.size or 0, blob.updated)

    @contextmanager
    def _translated(self, verb: str, key: str | None, sent: Sent | None = None) -> Iterator[None]:
        try:
            yield
        except (
            api.GoogleAPICallError,
            auth.GoogleAuthError,
            requests.exceptions.RequestException,
            InvalidResponse,
            DataCorruption,
            urllib3.exceptions.HTTPError,
            OSError,
            ValueError,
        ) as failure:
            if sent is not None and sent.failure is not None:
                raise sent.failure from None
            raise self._meaning(verb, key, failure) from None

    def _meaning(self, verb: str, key: str | None, failure: Exception) -> Exception:
        action = f"{verb} {key}" if key is not None else verb
        if isinstance(failure.__context__, DataCorruption):
            # The client removes an object that is damaged, and may fail at that.
            failure = failure.__context__
        match failure:
            case api.PreconditionFailed():
                return FileExistsError(key)
            case api.RequestRangeNotSatisfiable():
                return PastTheEnd()
            case api.GoogleAPICallError():
                return self._answered(action, key, failure)
            case DataCorruption():
                return self._failures.damaged(key or "", self.delete)
            case auth.TransportError():
                return self._failures.unanswered(action, _innermost(failure))
            case auth.GoogleAuthError():
                return self._failures.refused(
                    action, str(failure.args[0]) if failure.args else "no valid credentials"
                )
            case InvalidResponse():
                return self._failures.answered(action, key, failure.response.status_code)
            case ValueError() if not isinstance(failure, requests.exceptions.RequestException):
                return self._failures.refused(action, str(failure))
        return self._failures.unanswered(action, _innermost(failure))

    def _answered(self, action: str, key: str | None, failure: api.GoogleAPICallError) -> Eigen2Error:
        details = failure.errors[0] if failure.errors and isinstance(failure.errors[0], dict) else {}
        message = str(details.get("message") or failure.message or "")
        if failure.code == 404 and "bucket does not exist" in message:
            return self._failures.no_bucket()
        if failure.code == 400 and ("MD5" in message or "CRC32C" in message):
            return self._failures.unanswered(action, f"the data was damaged on the way; {message}")
        return self._failures.answered(
            action, key, int(failure.code or 500), str(details.get("reason", "")), message
        )


class PastTheEnd(Exception):
    """A range that begins where the object ends."""


class Outgoing:
    """The file the client reads from: one piece for each chunk it sends."""

    def __init__(self, sent: Sent) -> None:
        self._sent = sent
        self._position = 0

    def read(self, count: int) -> bytes:
        piece = next(self._sent, b"") if count else b""
        self._position += len(piece)
        return piece

    def tell(self) -> int:
        return self._position


def _innermost(failure: BaseException) -> str:
    """The operating system's words at the bottom of a chain of wrappers, or the name of the outermost."""
    words = type(failure).__name__
    current: BaseException | None = failure
    while current is not None:
        if isinstance(current, OSError) and current.strerror:
            words = current.strerror
        inside = [getattr(current, "reason", None), *current.args, current.__cause__, current.__context__]
        current = next((found for found in inside if isinstance(found, BaseException)), None)
    return words
