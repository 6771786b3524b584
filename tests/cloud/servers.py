"""Real object stores on loopback, each in a process of its own that dies with the tests."""

import base64
import collections
import ctypes
import hashlib
import hmac
import http.client
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from proxy import Proxy

from eigen2.cloud.bucket import Bucket

KINDS = ("gcs", "moto", "rclone", "azurite", "local")
BUCKET = "eigen2-tests"
KEY, SECRET = "AKIDTEST12345678", "SECRETTEST12345678"
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Known to everyone: azurite accepts this one only."""
DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


@dataclass(frozen=True)
class Served:
    """A place in a store that no other test uses."""

    kind: str
    url: str
    address: str
    """host:port, empty for a directory."""
    environment: dict[str, str]
    """What a client needs, also one in a process of its own."""
    stored: Path | None
    """Where the objects lie as plain files, for the stores that keep them so."""

    def files(self) -> list[str]:
        """Keys of the plain files."""
        assert self.stored is not None
        return sorted(
            path.relative_to(self.stored).as_posix() for path in self.stored.rglob("*") if path.is_file()
        )

    def through(self, address: str) -> "Served":
        """The same place, reached by another address: that of a proxy."""
        environment = {name: value.replace(self.address, address) for name, value in self.environment.items()}
        return replace(self, address=address, environment=environment)

    def below(self, name: str) -> "Served":
        return replace(self, url=f"{self.url}/{name}", stored=self.stored / name if self.stored else None)


Place = Callable[[str], Served]
"""From a kind of store to a place in it."""
Open = Callable[..., Bucket]
"""(served, timeout_seconds=30) -> the bucket, with the environment that its client needs."""
Proxied = Callable[[Served], tuple[Served, Proxy]]


def new_place(server: Served) -> Served:
    """A prefix of its own: `rclone serve` caches directories, so a prefix is never used again."""
    return server.below(secrets.token_hex(6))


def start(kind: str, directory: Path) -> AbstractContextManager[Served]:
    return STARTERS[kind](directory)


def missing(kind: str) -> str | None:
    """Why a kind of store cannot be started here."""
    if kind == "azurite" and _azurite() is None:
        return "azurite is not installed; ./run setup-test-system installs it where npm is"
    return None


@contextmanager
def process(command: list[str | Path], directory: Path) -> Iterator[str]:
    """host:port that the process announces. It chooses the port, so two never choose the same."""
    running = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=directory,
        preexec_fn=_die_with_parent,
    )
    assert running.stdout is not None
    said = b""
    try:
        for line in running.stdout:
            said += line
            if found := re.search(rb"https?://(127\.0\.0\.1:[1-9]\d*)", line):
                break
        else:
            raise RuntimeError(f"{command[0]} did not start: {said.decode(errors='replace')}")
        # What it says from now on goes nowhere, and must not fill the pipe.
        rest = threading.Thread(target=lambda: collections.deque(running.stdout or (), maxlen=0), daemon=True)
        rest.start()
        yield found[1].decode()
    finally:
        running.kill()
        running.wait()
    rest.join()
    running.stdout.close()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


@contextmanager
def _gcs(directory: Path) -> Iterator[Served]:
    with process([sys.executable, Path(__file__).with_name("gcs_server.py"), BUCKET], directory) as address:
        yield Served("gcs", f"gs://{BUCKET}", address, {"STORAGE_EMULATOR_HOST": f"http://{address}"}, None)


@contextmanager
def _moto(directory: Path) -> Iterator[Served]:
    tool = Path(sys.executable).parent / "moto_server"
    with process([sys.executable, "-u", tool, "-H", "127.0.0.1", "-p", "0"], directory) as address:
        _request(address, "PUT", f"/{BUCKET}", {})
        yield Served("moto", f"s3://{BUCKET}", address, s3_environment(address), None)


@contextmanager
def _rclone(directory: Path) -> Iterator[Served]:
    stored = directory / "stored"
    (stored / BUCKET).mkdir(parents=True)
    tool = Path(sys.executable).parent / "rclone"
    command: list[str | Path] = [tool, "serve", "s3", "--config", "", "--auth-key", f"{KEY},{SECRET}", "--addr", "127.0.0.1:0",
               "--vfs-cache-mode", "off", stored]  # fmt: skip
    with process(command, directory) as address:
        yield Served("rclone", f"s3://{BUCKET}", address, s3_environment(address), stored / BUCKET)


@contextmanager
def _azurite_blob(directory: Path) -> Iterator[Served]:
    tool = _azurite()
    assert tool is not None
    command: list[str | Path] = [tool, "--disableTelemetry", "--blobHost", "127.0.0.1", "--blobPort", "0", "-l", directory / "stored",
               "--silent", "--skipApiVersionCheck"]  # fmt: skip
    with process(command, directory) as address:
        _make_container(address, BUCKET)
        yield Served("azurite", f"az://{BUCKET}", address, azure_environment(address), None)


@contextmanager
def _local(directory: Path) -> Iterator[Served]:
    yield Served("local", f"file://{directory}", "", {}, directory)


STARTERS: dict[str, Callable[[Path], AbstractContextManager[Served]]] = {
    "gcs": _gcs, "moto": _moto, "rclone": _rclone, "azurite": _azurite_blob, "local": _local,
}  # fmt: skip


def s3_environment(address: str, secret: str = SECRET) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{address}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def azure_environment(address: str, key: str = AZURE_KEY) -> dict[str, str]:
    endpoint = f"http://{address}/{AZURE_ACCOUNT}"
    fields = f"AccountName={AZURE_ACCOUNT};AccountKey={key};BlobEndpoint={endpoint};"
    return {"AZURE_STORAGE_CONNECTION_STRING": f"DefaultEndpointsProtocol=http;{fields}"}


def _azurite() -> Path | None:
    installed = Path(sys.prefix) / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    found = installed if installed.exists() else shutil.which("azurite-blob")
    return Path(found) if found else None


def _make_container(address: str, name: str) -> None:
    """Clients of eigen2 make no containers, so this one request is signed by hand."""
    date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    path = f"/{AZURE_ACCOUNT}/{name}"
    text = (
        "PUT"
        + "\n" * 12
        + f"x-ms-date:{date}\nx-ms-version:2021-08-06\n/{AZURE_ACCOUNT}{path}\nrestype:container"
    )
    signature = hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": "2021-08-06",
        "Authorization": f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(signature).decode()}",
    }
    _request(address, "PUT", f"{path}?restype=container", headers)


def _request(address: str, method: str, path: str, headers: dict[str, str]) -> None:
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status in (200, 201), f"{method} {path}: {answer.status} {body!r}"
