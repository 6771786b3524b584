"""Logs are complete lines, readable at any time, cut back by a resume, and patient with a full disk."""

import errno
import fcntl
import math
import os
import shutil
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eigen2.errors import ResourceError
from eigen2.harness.journal import Journal, cut_back, last_record, mend_lines, read_log
from eigen2.store import durable
from eigen2.store.durable import append_line, rewrite

FULL_DISK = """
import os, shutil, sys
from pathlib import Path
from eigen2.harness.journal import Journal, read_log
place = Path(sys.argv[1])
journal = Journal(place, ("metrics", "events"))
journal.append("metrics", {"step": 0})
ballast = open(place / "ballast", "wb")
ballast.write(bytes(shutil.disk_usage(place).free))
ballast.flush()
for step in range(1, 2001):
    journal.append("metrics", {"step": step})
seen = [record["step"] for record in read_log(place / "metrics.jsonl")]
assert seen == list(range(len(seen))) and 0 < len(seen) < 2001, seen
try:
    journal.sizes()
except OSError:
    pass
else:
    sys.exit("sizes must not promise what the disk does not hold")
os.ftruncate(ballast.fileno(), 0)
size = journal.sizes()["metrics"]
assert [record["step"] for record in read_log(place / "metrics.jsonl")] == list(range(2001))
assert size == (place / "metrics.jsonl").stat().st_size
"""


def test_records_can_be_read_while_they_are_written(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, ("metrics",))) as journal:
        journal.append("metrics", {"step": 1, "loss": 0.5})
        assert read_log(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": 0.5}]


def test_a_number_json_does_not_have_becomes_null(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, ("metrics",))) as journal:
        journal.append("metrics", {"loss": math.nan, "deep": {"list": [math.inf, 1.0]}})
    assert read_log(tmp_path / "metrics.jsonl") == [{"loss": None, "deep": {"list": [None, 1.0]}}]


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":1}\n{"step":2}\n{"ste')
    assert [record["step"] for record in read_log(path)] == [1, 2]


def test_a_log_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    assert read_log(tmp_path / "metrics.jsonl") == []


def test_a_resume_cuts_back_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, ("metrics", "events"))) as journal:
        journal.append("metrics", {"step": 1})
        sizes = journal.sizes()
        journal.append("metrics", {"step": 2})
        journal.event("resume", "later")
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(b'{"step":3,"lo')
    cut_back(tmp_path, sizes)
    assert read_log(tmp_path / "metrics.jsonl") == [{"step": 1}]
    assert read_log(tmp_path / "events.jsonl") == []


def test_cutting_back_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "evaluations.jsonl").write_bytes(b'{"split":"holdout"}\n')
    cut_back(tmp_path, {"metrics": 0})
    assert read_log(tmp_path / "evaluations.jsonl") == [{"split": "holdout"}]


class FailingDisk:
    """From now on writes or fsyncs of the logs fail, as long as `error` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: int | None = None
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, descriptor: int) -> None:
        if self.error is not None:
            # The kernel may drop what it could not write, and say so once.
            os.ftruncate(descriptor, 0)
            raise OSError(self.error, os.strerror(self.error))
        self._fsync(descriptor)


def test_what_a_failed_fsync_dropped_is_written_into_a_fresh_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, path = FailingDisk(monkeypatch), tmp_path / "metrics.jsonl"
    with closing(Journal(tmp_path, ("metrics",))) as journal:
        journal.append("metrics", {"step": 1})
        disk.error = errno.EIO
        with pytest.raises(OSError, match="Input/output"):
            journal.sizes()
        before = path.stat().st_ino
        journal.append("metrics", {"step": 2})
        disk.error = None
        sizes = journal.sizes()
        journal.append("metrics", {"step": 3})
        assert [record["step"] for record in read_log(path)] == [1, 2, 3]
        assert path.stat().st_ino != before
        assert sizes["metrics"] == len(b'{"step":1}\n{"step":2}\n')


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.EFBIG, errno.ESTALE, errno.EDQUOT])
def test_a_disk_that_fails_keeps_records_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with closing(Journal(tmp_path, ("metrics",))) as journal:
        log = journal._logs["metrics"]
        file, broken = log._file, Broken(log._file, number)
        journal.append("metrics", {"step": 0})
        monkeypatch.setattr(log, "_file", broken)
        for step in range(1, 500):
            journal.append("metrics", {"step": step})
        with pytest.raises(OSError, match=os.strerror(number)):
            journal.sizes()
        assert broken.tries < 100
        monkeypatch.setattr(log, "_file", file)
        journal.sizes()
    assert [record["step"] for record in read_log(tmp_path / "metrics.jsonl")] == list(range(500))


class Broken:
    """A file that takes nothing."""

    def __init__(self, file: Any, number: int) -> None:
        self._file, self._number, self.tries = file, number, 0

    def write(self, data: bytes) -> int:
        self.tries += 1
        raise OSError(self._number, os.strerror(self._number))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_records_do_not_wait_without_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigen2.harness.journal.MOST_WAITING", 1000)
    with closing(Journal(tmp_path, ("metrics",))) as journal:
        log = journal._logs["metrics"]
        monkeypatch.setattr(log, "_file", Broken(log._file, errno.EIO))
        for _ in range(100):
            journal.append("metrics", {})
        with pytest.raises(ResourceError, match="could not be written for so long"):
            journal.append("metrics", {"long": "." * 1000})


def test_little_is_kept_in_memory_between_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eigen2.harness.journal.MOST_UNSYNCED", 1000)
    with closing(Journal(tmp_path, ("metrics",))) as journal:
        for step in range(1000):
            journal.append("metrics", {"step": step})
            assert len(journal._logs["metrics"]._tail) <= 1000
    assert len(read_log(tmp_path / "metrics.jsonl")) == 1000


def test_a_log_that_does_not_reach_its_checkpoint_is_told(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step":1}\n{"st')
    (said,) = cut_back(tmp_path, {"metrics": 40})
    assert said == f"{tmp_path / 'metrics.jsonl'} has lost 25 of 40 bytes; the run continues without them."
    (said,) = mend_lines(tmp_path, ("metrics", "events"))
    assert "its 4 bytes are cut off" in said
    assert (tmp_path / "metrics.jsonl").read_bytes() == b'{"step":1}\n'


def test_a_torn_line_is_cut_before_the_next_is_added(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.jsonl"
    path.write_bytes(b'{"look":1}\n' + b"x" * 200_000)
    assert append_line(path, b'{"look":2}\n') == 200_000
    assert append_line(path, b'{"look":3}\n') == 0
    assert [record["look"] for record in read_log(path)] == [1, 2, 3]
    path.write_bytes(b'{"lo')
    assert append_line(path, b'{"look":1}\n') == 4
    assert read_log(path) == [{"look": 1}]


def test_a_line_that_cannot_be_written_whole_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write, left = tmp_path / "evaluations.jsonl", os.write, [10]

    def short(descriptor: int, data: Any) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(descriptor, bytes(data)[: left[0]])
        left[0] -= done
        return done

    append_line(path, b'{"look":1}\n')
    monkeypatch.setattr(os, "write", short)
    with pytest.raises(OSError, match="No space"):
        append_line(path, b'{"look":2,"long":"..........................."}\n')
    assert path.read_bytes() == b'{"look":1}\n'


def test_a_full_disk_keeps_records_waiting_in_order(tmp_path: Path) -> None:
    prefix = (
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=64k none "$0" && exec "$@"',
        str(tmp_path),
    )
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small disk needs root and util-linux")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this container may not mount a tmpfs")
    command = [*prefix, sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_line_that_is_added_while_a_log_is_rewritten_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An evaluation beside a repair: the appender waits for a file that is then no longer the one at the path."""
    path, waiting = tmp_path / "evaluations.jsonl", threading.Event()
    path.write_bytes(b"good\nbad\n")
    lock = fcntl.flock

    def flock(file: Any, kind: int) -> None:
        if threading.current_thread() is adder:
            waiting.set()
        lock(file, kind)

    def edited(content: bytes) -> bytes:
        adder.start()
        waiting.wait()
        return content.replace(b"bad\n", b"")

    adder = threading.Thread(target=append_line, args=(path, b"new\n"))
    monkeypatch.setattr(fcntl, "flock", flock)
    rewrite(path, edited)
    adder.join()
    assert path.read_bytes() == b"good\nnew\n"


@pytest.mark.parametrize("size", [10, 16 << 10, (16 << 10) + 1, 40_000, 1 << 20])
def test_the_last_record_is_found_whatever_its_length(tmp_path: Path, size: int) -> None:
    log = tmp_path / "metrics.jsonl"
    for before in ("", '{"step": 1}\n'):
        for torn in ("", '{"step": 3, "x'):
            log.write_text(f'{before}{{"step": 2, "x": "{"y" * size}"}}\n{torn}')
            assert last_record(log)["step"] == 2
    log.write_text('{"step": 3, "x')
    assert last_record(log) == {}


def test_two_that_add_to_a_log_with_a_second_name_lose_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two evaluations of a run that was copied with `cp -al`: the first makes the log a file of its own."""
    path, other, waiting = tmp_path / "evaluations.jsonl", tmp_path / "copy.jsonl", threading.Event()
    other.write_bytes(b"old\n")
    os.link(other, path)
    lock, copied = fcntl.flock, durable.write_stream

    def flock(file: Any, kind: int) -> None:
        if threading.current_thread() is adder:
            waiting.set()
        lock(file, kind)

    def write_stream(*arguments: Any) -> None:
        if threading.current_thread() is not adder:
            adder.start()
            waiting.wait()
        copied(*arguments)

    adder = threading.Thread(target=append_line, args=(path, b"second\n"))
    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(durable, "write_stream", write_stream)
    append_line(path, b"first\n")
    adder.join()
    assert sorted(path.read_bytes().splitlines()) == [b"first", b"old", b"second"]
    assert other.read_bytes() == b"old\n"
