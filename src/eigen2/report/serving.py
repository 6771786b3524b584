"""The dashboard on an address: on this machine alone, or with a token."""

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from eigen2.errors import ConfigError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(root: Path, host: str, port: int, token: str | None, say: Callable[[str], None]) -> None:
    """Until it is interrupted."""
    try:
        import uvicorn

        from eigen2.report.server import dashboard
    except ImportError as error:
        raise ConfigError(f"the dashboard needs {error.name}: pip install 'eigen2[web]'.") from error
    if not root.is_dir():
        raise ConfigError(f"there is no directory {root}; --root names the one that holds the runs.")
    if host not in LOOPBACK and token is None:
        token = secrets.token_urlsafe(24)
    if token is not None and len(token) < 12:
        raise ConfigError("a token of fewer than 12 characters can be guessed; leave it out and one is made.")
    listening = _listen(host, port)
    shown, query = f"[{host}]" if ":" in host else host, f"/?token={token}" if token else "/"
    say(f"http://{shown}:{listening.getsockname()[1]}{query}   (Ctrl-C ends it)")
    config = uvicorn.Config(
        dashboard(root, token), log_level="warning", access_log=False, timeout_graceful_shutdown=2
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        return


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # Whoever follows the address as soon as it is printed waits instead of being refused.
        listening.listen(128)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} cannot be used ({error.strerror}); --port names another."
        ) from error
    return listening
