"""The live page: what it serves, and what it refuses."""

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from eigen2.report import index
from eigen2.report.logs import GrowingLog
from eigen2.report.server import COOKIE, dashboard

RUN = Path(__file__).parents[1] / "upgrade" / "format2" / "erl_weights"
SECRET = "a secret that nobody should read"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(RUN, tmp_path / "runs" / "one")
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(RUN, tmp_path / "elsewhere" / "other")
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere" / "other")
    return tmp_path / "runs"


@pytest.fixture
def client(root: Path) -> Iterator[Any]:
    with TestClient(dashboard(root), base_url="http://127.0.0.1") as client:
        yield client


def test_runs_and_one_run_are_served(client: Any) -> None:
    assert [run["name"] for run in client.get("/api/runs").json()] == ["one"]
    run = client.get("/api/run/one").json()
    assert "Learning" in [part["title"] for part in run["parts"]]
    assert sum(shown["figure"] is not None for part in run["parts"] for shown in part["shown"]) >= 3
    for page in ("/", "/run/one", "/run/one/report"):
        assert client.get(page).status_code == 200
    assert len(client.get("/plotly.js").content) > 1_000_000


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "link",
        "%2e%2e",
        "..%2f..%2fsecret.txt",
        "one%2f..%2f..%2felsewhere%2fother",
        "nosuch",
        "%00",
        "~",
        "one/../..",
    ],
)
def test_nothing_outside_the_root_can_be_named(client: Any, name: str) -> None:
    for place in ("/run/", "/api/run/"):
        answer = client.get(place + name, follow_redirects=False)
        assert answer.status_code in (404, 307, 200)
        assert SECRET not in answer.text
        # What normalises to `/` or `/run` before it is sent is the front page or nothing.
        assert answer.status_code != 200 or "<h1>Runs</h1>" in answer.text


def test_it_is_read_only(client: Any) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, "/api/runs").status_code == 405


def test_another_page_s_name_for_this_machine_is_refused(root: Path) -> None:
    with TestClient(dashboard(root), base_url="http://evil.example") as client:
        assert client.get("/api/runs").status_code == 400


def test_without_the_token_nothing_is_served(root: Path) -> None:
    with TestClient(
        dashboard(root, "right-token-123"), base_url="http://10.0.0.1", follow_redirects=False
    ) as client:
        for place in ("/", "/api/runs", "/run/one", "/plotly.js", "/api/runs?token=wrong-token-123"):
            assert client.get(place).status_code == 401
        assert client.get("/api/runs", headers={"Authorization": "Bearer right-token-123"}).status_code == 200
        first = client.get("/?token=right-token-123")
        assert (first.status_code, first.headers["location"]) == (303, "/")
        assert "HttpOnly" in first.headers["set-cookie"]
        client.cookies.set(COOKIE, "right-token-123")
        assert client.get("/api/runs").status_code == 200


def test_a_log_is_read_where_it_has_grown(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path / "log.jsonl")
    assert not log.refresh()
    with open(log.path, "a", encoding="utf-8") as file:
        file.write('{"step": 1, "a": 1}\n{"step": 2, "b')
        file.flush()
        assert log.refresh()
        assert log.columns == {"step": [1], "a": [1]}
        file.write('": 5}\nrubbish\n')
    assert log.refresh()
    assert log.columns == {"step": [1, 2], "a": [1, None], "b": [None, 5]}
    assert log.bad == 1
    assert log.records() == [{"step": 1, "a": 1}, {"step": 2, "b": 5}]
    # A resume cuts a log back.
    log.path.write_text(json.dumps({"step": 1}) + "\n")
    assert log.refresh()
    assert log.columns == {"step": [1]}


def test_sizes_are_measured_while_the_list_is_there_already(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def slow_size(path: Path) -> int:
        go_on.wait(60)
        return 4711

    monkeypatch.setattr(index, "disk_bytes", slow_size)
    runs = index.RunIndex(root)
    assert [(run["name"], run["bytes"]) for run in runs.list()] == [("one", None)]
    go_on.set()
    runs.wait_measured()
    assert [(run["name"], run["bytes"]) for run in runs.list()] == [("one", 4711)]
