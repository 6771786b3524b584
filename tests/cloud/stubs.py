"""Servers that misbehave in one way, for what no real server can be made to do."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Etag = Callable[[bytes], str]
Damage = Callable[[bytes], bytes]


def honest(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def opaque(data: bytes) -> str:
    return "a-word-that-says-nothing"


def one_bit(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


class LooseS3(BaseHTTPRequestHandler):
    """Accepts anything, answers with the ETag of what it was sent, and stores what `damage` makes of it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    etag: Etag
    damage: Damage
    stored: dict[str, bytes]

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.stored[self.path] = self.damage(data)
        self._answer(200, b"", ETag=f'"{self.etag(data)}"')

    def do_GET(self) -> None:
        data = self.stored.get(self.path)
        if data is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._answer(200, data, ETag='"x"', Last_Modified="Tue, 17 Nov 2026 19:05:54 GMT")

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        self.stored.pop(self.path, None)
        self._answer(204, b"")

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class Fixed(BaseHTTPRequestHandler):
    """One answer to everything."""

    status: int
    body: bytes

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(self.body)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def loose_s3(etag: Etag, damage: Damage) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Address, and what is stored by path."""
    stored: dict[str, bytes] = {}
    fields = {"etag": staticmethod(etag), "damage": staticmethod(damage), "stored": stored}
    with _serving(type("Handler", (LooseS3,), fields)) as address:
        yield address, stored


@contextmanager
def always(status: int, body: bytes = b"") -> Iterator[str]:
    with _serving(type("Handler", (Fixed,), {"status": status, "body": body})) as address:
        yield address


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
