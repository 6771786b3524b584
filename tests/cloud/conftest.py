"""Stores, one server per kind and worker, and a new place in it for each test."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from proxy import Proxy  # noqa: E402
from servers import KINDS, Open, Place, Proxied, Served, missing, new_place, start  # noqa: E402

from eigen2.cloud.bucket import Bucket  # noqa: E402
from eigen2.cloud.location import parse  # noqa: E402
from eigen2.cloud.opening import open_bucket  # noqa: E402


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Started when the first test asks for them."""
    running: dict[str, Served] = {}
    with ExitStack() as stack:

        def server(kind: str) -> Served:
            if reason := missing(kind):
                pytest.skip(reason)
            if kind not in running:
                running[kind] = stack.enter_context(start(kind, tmp_path_factory.mktemp(kind)))
            return running[kind]

        yield server


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials of the machine are found, and nothing outside it is asked for any."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "GCS_", "STORAGE_", "CLOUD_", "CLOUDSDK_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def place(servers: Place) -> Place:
    return lambda kind: new_place(servers(kind))


@pytest.fixture(params=KINDS)
def served(request: pytest.FixtureRequest, place: Place) -> Served:
    """The same test for every kind of store."""
    return place(request.param)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    def open_it(served: Served, timeout_seconds: float = 30) -> Bucket:
        for name, value in served.environment.items():
            monkeypatch.setenv(name, value)
        return open_bucket(parse(served.url), timeout_seconds)

    return open_it


@pytest.fixture
def bucket(served: Served, opened: Open) -> Bucket:
    return opened(served)


@pytest.fixture
def proxied() -> Iterator[Proxied]:
    """A place behind a proxy. Clients are pointed at the proxy from the beginning: S3 signs the host's name."""
    with ExitStack() as stack:

        def behind(served: Served) -> tuple[Served, Proxy]:
            proxy = stack.enter_context(Proxy(served.address))
            return served.through(proxy.address), proxy

        yield behind
