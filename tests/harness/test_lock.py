"""Two processes cannot train into one run directory, and a dead one is in nobody's way."""

import errno
import json
import os
import signal
import socket
from pathlib import Path

import pytest
from command_lab import ORDERS, Lab, Moment, story

from eigen2.errors import ConfigError, ResourceError
from eigen2.harness.lock import RunLock, held


def test_a_second_trainer_is_refused_and_told_who_holds_the_run(
    lab: Lab, tmp_path: Path, finished: Path
) -> None:
    first = lab.start(
        "train", *ORDERS, f"run.root={tmp_path}", "run.name=mine", moments=(Moment("stepped", "SIGSTOP"),)
    )
    first.wait_stopped()
    run = tmp_path / "mine"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    second = lab.run("train", "--resume", run)
    assert second.code == 2
    assert f"is in use by process {first.pid} on {socket.gethostname()}" in second.err
    assert {path: path.read_bytes() for path in before} == before
    assert lab.run("verify", run).code == 0
    assert lab.run("runs", "--root", tmp_path, "--json").json[0]["state"] == "running"
    first.signal(signal.SIGCONT)
    assert first.wait().code == 0
    assert story(run) == story(finished)


def test_the_lock_is_free_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with RunLock(tmp_path) as lock:
            assert lock.warning is None
            with pytest.raises(ConfigError, match="is in use by process"), RunLock(tmp_path):
                pass
    assert (tmp_path / "lock").read_text() == ""


def test_a_dead_holder_is_no_obstacle(lab: Lab, tmp_path: Path) -> None:
    done = lab.run(
        "train", *ORDERS, f"run.root={tmp_path}", "run.name=mine", moments=(Moment("stepped", "SIGKILL", 2),)
    )
    assert done.killed
    assert held(tmp_path / "mine") == "dead"
    resumed = lab.run("train", "--resume", tmp_path / "mine")
    assert resumed.code == 0
    assert "never released" not in resumed.out
    assert held(tmp_path / "mine") == "nobody"


def test_a_lock_left_on_another_host_is_explained(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(json.dumps({"pid": 42, "host": "elsewhere", "since": 1_700_000_000}))
    with RunLock(tmp_path) as lock:
        assert lock.warning is not None
        assert "process 42 on elsewhere" in lock.warning
        assert "stop it" in lock.warning


def test_a_lock_file_that_says_nothing_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("{ torn")
    with RunLock(tmp_path) as lock:
        assert lock.warning is None


@pytest.mark.parametrize(
    "text", ["{}", "[]", "null", "7", '{"pid": "x", "host": "y", "since": 0}', "\udcff", "{"]
)
def test_rubbish_in_the_lock_file_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert held(tmp_path) == "nobody"
    (tmp_path / "lock").write_text(text if text.isprintable() else "{", encoding="utf-8", errors="replace")
    with RunLock(tmp_path) as lock:
        assert lock.warning is None


def test_a_dead_disk_does_not_hide_what_ended_the_work(tmp_path: Path) -> None:
    class Dead:
        def __getattr__(self, name: str) -> object:
            raise OSError(5, "Input/output error")

    def work() -> None:
        with RunLock(tmp_path) as lock:
            lock._file.close()
            lock._file = Dead()  # type: ignore[assignment]
            raise ResourceError("the real reason")

    with pytest.raises(ResourceError, match="the real reason"):
        work()


def test_a_directory_that_may_not_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("eigen2.harness.lock.open_plain", refuse)
    with pytest.raises(ConfigError, match=r"cannot be written \(Read-only file system\)"), RunLock(tmp_path):
        pass
