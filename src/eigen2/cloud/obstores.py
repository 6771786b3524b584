"""S3 and Azure, through obstore.

What proves a put: S3 answers with an ETag that is the MD5 of what it received, or the MD5 of the MD5s of the parts;
equal to ours means that the server has what we sent. Where the ETag is something else (SSE-KMS, Azure, other servers)
the object is read back. A server that computes the right ETag and then stores other bytes is found only when the
object is read, by the hash that names it.
"""

import os
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import AzureStore, S3Store

from eigen2.cloud import aws, azure
from eigen2.cloud.bucket import Bucket, Corrupted, Entry, NotThere, Refused, Source
from eigen2.cloud.failures import Failures, NoBucket
from eigen2.cloud.keys import checked
from eigen2.cloud.location import Location
from eigen2.cloud.pieces import PIECE, Sent, md5, part_size, pieces, sha256, size_of, whole
from eigen2.errors import ConfigError, Eigen2Error

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import AzureConfig, ClientConfig, RetryConfig, S3Config

CONCURRENT = 4 * PIECE
"""Bytes of one large object that are under way at once."""
READ = 2**20
CONNECT_SECONDS = 10
METADATA_SERVER = "169.254.169.254"
EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken"}


class ObstoreBucket(Bucket):
    """What S3 and Azure have in common. Retrying is the uploader's work: the client repeats a request once at most."""

    credentials: str

    def __init__(self, location: Location, timeout_seconds: float) -> None:
        self._location = location
        self._timeout = timedelta(seconds=timeout_seconds)
        self._large = threading.Lock()
        """One large object at a time, so that memory stays bounded."""
        self.renew()

    @abstractmethod
    def _open(self, reading: bool) -> tuple[S3Store | AzureStore, tuple[str, ...]]:
        """A new store and the secrets it was made with."""

    def _for_parts(self, store: S3Store | AzureStore) -> S3Store | AzureStore:
        """The store through which large objects go."""
        return store

    @abstractmethod
    def _proven(self, etag: str | None, ours: str) -> bool:
        """Whether the server's ETag shows that it has what was sent."""

    def renew(self) -> None:
        try:
            store, secrets = self._open(reading=False)
            self._reader, _ = self._open(reading=True)
            self._parts = self._for_parts(store)
        except (BaseError, ValueError) as failure:
            # Constructors show the configuration they were given, so nothing of it is repeated.
            raise Refused(
                f"The credentials or the endpoint for {self._location.url} cannot be used ({type(failure).__name__}); check {self.credentials}."
            ) from None
        self._store = store
        self._failures = Failures(self._location, self.credentials, secrets)

    def put(
        self, key: str, source: Source | bytes, spend: Callable[[int], None] = lambda count: None
    ) -> None:
        path = self._path(key)
        size = size_of(source)
        if size <= PIECE:
            data = whole(source)
            spend(size)
            with self._translated("put", key):
                etag = obstore.put(self._store, path, data, use_multipart=False)["e_tag"]
            ours = md5(data).hex()
        else:
            with self._large:
                etag, ours = self._put_parts(key, path, source, size, spend)
        if not self._proven(etag, ours):
            self._compare(key, source)

    def _put_parts(
        self, key: str, path: str, source: Source | bytes, size: int, spend: Callable[[int], None]
    ) -> tuple[str | None, str]:
        length = part_size(size)
        parts: list[bytes] = []
        sent = Sent(source, length, spend, lambda piece: parts.append(md5(piece)))
        with self._translated("put", key, sent):
            etag = obstore.put(
                self._parts,
                path,
                sent,
                use_multipart=True,
                chunk_size=length,
                max_concurrency=max(1, CONCURRENT // length),
            )["e_tag"]
        return etag, f"{md5(b''.join(parts)).hex()}-{len(parts)}"

    def _compare(self, key: str, source: Source | bytes) -> None:
        if sha256(self.read(key)) != sha256(pieces(source, READ)):
            raise self._failures.damaged(key, self.delete)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """The server decides, by If-None-Match. Some servers ignore that header: they are asked before, and afterwards
        what is there is compared. On those, of two writers within one round trip the later wins and the earlier,
        if it compared before, believes that it won too."""
        if self.head(key) is not None:
            return False
        with self._translated("put", key), suppress(AlreadyExistsError):
            obstore.put(self._store, self._path(key), data, mode="create", use_multipart=False)
        try:
            return b"".join(self.read(key)) == data
        except NoBucket:
            raise
        except NotThere:
            return False

    def read(self, key: str) -> Iterator[bytes]:
        with self._translated("get", key):
            for chunk in obstore.get(self._reader, self._path(key)).stream(min_chunk_size=READ):
                yield bytes(chunk)

    def head(self, key: str) -> Entry | None:
        try:
            with self._translated("look up", key):
                return self._entry(obstore.head(self._store, self._path(key)))
        except NoBucket:
            raise
        except NotThere:
            return None

    def list(self, prefix: str = "") -> Iterator[Entry]:
        with self._translated("list", None):
            for batch in obstore.list(self._store, self._below(prefix), chunk_size=1000):
                for meta in batch:
                    yield self._entry(meta)

    def names(self, prefix: str = "") -> Iterator[str]:
        below = self._below(prefix)
        with self._translated("list", None):
            found = obstore.list_with_delimiter(self._store, below)
        for path in [*found["common_prefixes"], *(meta["path"] for meta in found["objects"])]:
            yield path.rstrip("/").rpartition("/")[2]

    def delete(self, key: str) -> None:
        try:
            with self._translated("delete", key):
                obstore.delete(self._store, self._path(key))
        except NoBucket:
            raise
        except NotThere:
            return

    def _path(self, key: str) -> str:
        return "/".join(filter(None, [self._location.prefix, checked(key)]))

    def _below(self, prefix: str) -> str | None:
        return "/".join(filter(None, [self._location.prefix, prefix.rstrip("/")])) or None

    def _entry(self, meta: "ObjectMeta") -> Entry:
        key = meta["path"][len(self._location.prefix) + 1 if self._location.prefix else 0 :]
        return Entry(key, meta["size"], meta["last_modified"])

    def _client(self, reading: bool, plain: bool) -> "ClientConfig":
        """A download may take long as long as bytes arrive; every other request has one deadline."""
        common: ClientConfig = {"connect_timeout": timedelta(seconds=CONNECT_SECONDS), "allow_http": plain}
        if reading:
            return {**common, "timeout": timedelta(days=7), "read_timeout": self._timeout}
        return {**common, "timeout": self._timeout}

    def _retries(self) -> "RetryConfig":
        return {
            "max_retries": 1,
            "retry_timeout": self._timeout,
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=1),
                "base": 2,
            },
        }

    @contextmanager
    def _translated(self, verb: str, key: str | None, sent: Sent | None = None) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as failure:
            if sent is not None and sent.failure is not None:
                raise sent.failure from None
            # The chain would show the client's own words, which may hold a signed url.
            raise self._meaning(verb, key, failure) from None

    def _meaning(self, verb: str, key: str | None, failure: Exception) -> Eigen2Error:
        """obstore says what happened in the first lines, and shows its own structures after them."""
        action = f"{verb} {key}" if key is not None else verb
        text = str(failure)
        said = text.partition("\n\nDebug source:")[0]
        status = re.search(r"status code: (\d{3})|\(code: (\d{3})\)", said) or re.search(
            r"\bstatus: (\d{3}),", text
        )
        code = re.search(r"<Code>\s*(\w+)\s*</Code>", said)
        message = re.search(r"<Message>([^<]*)", said) or re.search(r"failed for key .*?: (.*) \(code:", said)
        word = code[1] if code else ""
        if word in EXPIRED:
            return self._failures.refused(action, f"the credentials have expired ({word})")
        if "with invalid path" in said:
            return Corrupted(
                f"{self._location.url} holds a key that cannot be a file name, so it cannot be listed; "
                "remove the key with the provider's own tool."
            )
        if METADATA_SERVER in said:
            return self._failures.refused(
                action, "no credentials were found, and the machine has no role to ask for"
            )
        if "redirect without LOCATION" in said:
            return self._failures.refused(action, "the bucket is in another region")
        if status:
            number = int(next(filter(None, status.groups())))
            words = message[1].splitlines()[0] if message and message[1].strip() else ""
            if "container does not exist" in words:
                return self._failures.no_bucket()
            return self._failures.answered(action, key, number, word, words)
        if isinstance(failure, ValueError) or "HTTP error" not in said:
            return self._failures.refused(action, said)
        reasons = re.findall(r'kind: (\w+),|message: "([^"]*)"|error: "?([\w ]+)"?,', text)
        words = next((found for found in reversed([a or b or c for a, b, c in reasons])), said)
        return self._failures.unanswered(action, words)


class S3Bucket(ObstoreBucket):
    credentials = aws.CREDENTIALS

    def _for_parts(self, store: S3Store | AzureStore) -> S3Store | AzureStore:
        # Signing the hash of every part as well would be the third time that a large object is hashed: by its name
        # before it leaves, by the ETag after it arrived.
        return self._open(reading=False, signed=False)[0]

    def _open(self, reading: bool, signed: bool = True) -> tuple[S3Store, tuple[str, ...]]:
        found = aws.settings(os.environ)
        config: S3Config = {
            "region": found.region, "disable_bulk_delete": True, "unsigned_payload": not signed,
        }  # fmt: skip
        if found.key and found.secret:
            config |= {"access_key_id": found.key, "secret_access_key": found.secret}
        if found.token:
            config["session_token"] = found.token
        if found.endpoint:
            config["endpoint"] = found.endpoint
        store = S3Store(
            self._location.bucket,
            config=config,
            client_options=self._client(reading, plain=(found.endpoint or "").startswith("http://")),
            retry_config=self._retries(),
        )
        return store, found.secrets

    def _proven(self, etag: str | None, ours: str) -> bool:
        return etag is not None and etag.strip('"') == ours


class AzureBucket(ObstoreBucket):
    credentials = azure.CREDENTIALS

    def _open(self, reading: bool) -> tuple[AzureStore, tuple[str, ...]]:
        found = azure.settings(os.environ)
        config: AzureConfig = {"account_name": found.account}
        # Named, because the client would prefer a key that it finds in the environment to a signature it was given.
        if found.signature:
            config |= {"sas_key": found.signature, "credential_type": "sas_token"}
        elif found.key:
            config |= {"account_key": found.key, "credential_type": "access_key"}
        if found.endpoint:
            config["endpoint"] = found.endpoint
        store = AzureStore(
            self._location.bucket,
            config=config,
            client_options=self._client(reading, plain=(found.endpoint or "").startswith("http://")),
            retry_config=self._retries(),
        )
        return store, found.secrets

    def _proven(self, etag: str | None, ours: str) -> bool:
        return False

    def _path(self, key: str) -> str:
        if "\\" in key or any(part.endswith(".") for part in key.split("/")):
            raise ConfigError(f"Azure would store {key!r} under another name; rename it.")
        return super()._path(key)
