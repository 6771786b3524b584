"""A TCP proxy for plain HTTP with faults that are switched on and off while it runs.

It passes bytes unchanged, and reads along where requests begin and end, so that faults and counts are per request.
Bodies have a Content-Length: none of the clients sends chunks.
"""

import re
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

BLOCK = 64 * 1024
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that makes close() send a reset instead of an orderly end."""


@dataclass
class Request:
    """One request that went through."""

    method: str
    path: str
    body: int
    """Bytes of the body that the client sent so far."""
    content: bytes = b""
    """The body itself, where the proxy keeps it."""
    head: bytes = b""


class Proxy:
    def __init__(self, target: str) -> None:
        host, _, port = target.partition(":")
        self._target = (host, int(port))
        self._guard = threading.Condition()
        self._open: set[socket.socket] = set()
        self._stalled = False
        self._answers: list[int] = []
        self._flips = 0
        self._flip_at_least = 1
        self.cut_after: int | None = None
        """Each connection is reset when its client has sent so many bytes."""
        self.cut_reply_after: int | None = None
        """Each connection is reset when its server has sent so many bytes."""
        self.bytes_per_second: float | None = None
        """Of each connection, from the client to the server."""
        self.requests: list[Request] = []
        self.keeps = False
        """Whether requests keep their bodies."""
        self.watch: Callable[[Request], None] = lambda request: None
        """Called with each request before it is passed on, in the thread of its connection: it may wait, or raise
        ConnectionResetError."""
        self.sent = 0
        """Bytes from clients, heads included."""
        self.received = 0
        """Bytes to clients."""
        self._listener = self._listening(0)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.calm()
        self.go_down()

    def stall(self) -> None:
        """Accept connections and bytes, and pass nothing on."""
        self._stalled = True

    def resume(self) -> None:
        with self._guard:
            self._stalled = False
            self._guard.notify_all()

    def answer(self, status: int, times: int) -> None:
        """Answer the next requests without asking the server."""
        with self._guard:
            self._answers += [status] * times

    def flip(self, times: int = 1, at_least: int = 1) -> None:
        """Change one bit in the middle of the next bodies that have so many bytes."""
        with self._guard:
            self._flips += times
            self._flip_at_least = at_least

    def calm(self) -> None:
        """No faults from now on."""
        with self._guard:
            self._answers.clear()
            self._flips = 0
            self.cut_after = self.cut_reply_after = self.bytes_per_second = None
        self.resume()

    def go_down(self) -> None:
        """Refuse connections and end those that are open."""
        # A shutdown wakes the thread that waits in accept().
        _reset(self._listener)
        with self._guard:
            for connection in self._open:
                _reset(connection)

    def come_up(self) -> None:
        """Listen again, at the same address."""
        self._listener = self._listening(int(self.address.partition(":")[2]))

    def count(self, method: str, path: str = "") -> int:
        """How many requests of a method had a path that holds a text."""
        return sum(request.method == method and path in request.path for request in self.requests)

    def _listening(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port), backlog=64)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target)
        except OSError:
            _reset(client)
            return
        for connection in (client, server):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._guard:
            self._open |= {client, server}
        threading.Thread(target=self._return, args=(server, client), daemon=True).start()
        try:
            Outward(self, client, server).run()
        except OSError:
            pass
        finally:
            _reset(client)
            _reset(server)
            with self._guard:
                self._open -= {client, server}

    def _return(self, server: socket.socket, client: socket.socket) -> None:
        returned = 0
        try:
            while block := server.recv(BLOCK):
                self.wait_while_stalled()
                client.sendall(block)
                with self._guard:
                    self.received += len(block)
                returned += len(block)
                if self.cut_reply_after is not None and returned >= self.cut_reply_after:
                    _reset(client)
                    return
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def wait_while_stalled(self) -> None:
        with self._guard:
            self._guard.wait_for(lambda: not self._stalled)

    def count_sent(self, count: int) -> None:
        with self._guard:
            self.sent += count

    def next_answer(self) -> int | None:
        with self._guard:
            return self._answers.pop(0) if self._answers else None

    def next_flip(self, length: int) -> bool:
        with self._guard:
            due = self._flips > 0 and length >= self._flip_at_least
            self._flips -= due
            return due


class Outward:
    """One connection, from the client to the server, request by request."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._sent = 0
        self._pending = b""

    def run(self) -> None:
        while head := self._head():
            method, path = head.split(b" ", 2)[:2]
            length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
            request = Request(method.decode(), path.decode(), 0, head=head)
            self._proxy.requests.append(request)
            self._proxy.watch(request)
            answer = self._proxy.next_answer()
            if answer is None:
                self._pass(head)
            self._body(request, int(length[1]) if length else 0, forward=answer is None)
            if answer is not None:
                self._client.sendall(
                    b"HTTP/1.1 %d Fault\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % answer
                )
                self._client.shutdown(socket.SHUT_WR)
                while self._client.recv(BLOCK):
                    pass
                return

    def _head(self) -> bytes:
        while b"\r\n\r\n" not in self._pending:
            block = self._client.recv(BLOCK)
            if not block:
                return b""
            self._take(block)
        head, separator, self._pending = self._pending.partition(b"\r\n\r\n")
        return head + separator

    def _take(self, block: bytes) -> None:
        self._pending += block
        self._proxy.count_sent(len(block))
        self._sent += len(block)
        if self._proxy.cut_after is not None and self._sent >= self._proxy.cut_after:
            raise ConnectionResetError("cut")

    def _body(self, request: Request, length: int, forward: bool) -> None:
        flip_at = length // 2 if forward and self._proxy.next_flip(length) else None
        while request.body < length:
            if not self._pending:
                block = self._client.recv(BLOCK)
                if not block:
                    raise ConnectionResetError("the client went away")
                self._take(block)
            piece, self._pending = (
                self._pending[: length - request.body],
                self._pending[length - request.body :],
            )
            if flip_at is not None and request.body <= flip_at < request.body + len(piece):
                place = flip_at - request.body
                piece = piece[:place] + bytes([piece[place] ^ 1]) + piece[place + 1 :]
            request.body += len(piece)
            if self._proxy.keeps:
                request.content += piece
            if forward:
                self._pass(piece)

    def _pass(self, block: bytes) -> None:
        self._proxy.wait_while_stalled()
        if self._proxy.bytes_per_second:
            threading.Event().wait(len(block) / self._proxy.bytes_per_second)
        self._server.sendall(block)


def _reset(connection: socket.socket) -> None:
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()
