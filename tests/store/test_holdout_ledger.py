"""Every use is on record, once, whoever writes; what cannot be written is an error, what cannot be read is counted."""

import errno
import fcntl
import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from eigen2.errors import DataError, ResourceError
from eigen2.store.holdout_ledger import HoldoutLedger, user_ledger

DATA = {"id": "0123", "market": "sp20"}


def uses(ledger: HoldoutLedger) -> list[str]:
    """The champions on record; asking is itself a use."""
    lines, _ = ledger.record({"champion": "asking"}, DATA)
    return [line["champion"] for line in lines if line["kind"] == "use"][:-1]


def test_a_use_is_returned_with_all_earlier_ones_and_describes_its_holdout_once(tmp_path: Path) -> None:
    ledger = HoldoutLedger(tmp_path / "not" / "there" / "yet.jsonl")
    first, damaged = ledger.record({"champion": "a"}, DATA)
    assert [line["kind"] for line in first] == ["holdout", "use"]
    assert damaged == 0
    lines, _ = HoldoutLedger(ledger.path).record({"champion": "b"}, DATA)
    assert [line["kind"] for line in lines] == ["holdout", "use", "use"]
    assert [line.get("champion") for line in lines] == [None, "a", "b"]
    assert lines[1]["use"] != lines[2]["use"]
    assert lines[1]["holdout"] == "0123"
    assert ledger.path.read_bytes().count(b"\n") == 3


def _writer(path: Path, number: int) -> None:
    for step in range(20):
        HoldoutLedger(path).record({"champion": f"{number}.{step}", "padding": "x" * 9000}, DATA)


def test_writers_of_several_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=_writer, args=(path, number)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
    found = uses(HoldoutLedger(path))
    assert sorted(found) == sorted(f"{number}.{step}" for number in range(4) for step in range(20))


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:7]))
    ledger = HoldoutLedger(tmp_path / "ledger.jsonl")
    ledger.record({"champion": "a"}, DATA)
    assert uses(ledger) == ["a"]


def test_a_disk_that_runs_full_leaves_no_part_of_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = HoldoutLedger(tmp_path / "ledger.jsonl")
    ledger.record({"champion": "a"}, DATA)
    before, write = ledger.path.read_bytes(), os.write

    def full(descriptor: int, content: memoryview) -> int:
        if len(content) < 30:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, content[:30])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ResourceError, match=r"The holdout stays closed: .*ledger\.jsonl .*EIGEN2_LEDGER"):
        ledger.record({"champion": "b"}, DATA)
    assert ledger.path.read_bytes() == before


def test_a_failing_fsync_is_an_error_and_not_a_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = HoldoutLedger(tmp_path / "ledger.jsonl")
    ledger.record({"champion": "a"}, DATA)

    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(DataError, match="Input/output error"):
            ledger.record({"champion": "b"}, DATA)
    assert uses(ledger) == ["a"]


@pytest.mark.parametrize("place", ["a file in the way", "a directory"])
def test_a_ledger_that_cannot_be_written_is_a_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "ledger.jsonl" if place == "a file in the way" else tmp_path
    with pytest.raises(DataError, match="The holdout stays closed") as caught:
        HoldoutLedger(path).record({"champion": "a"}, DATA)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda text: text.replace(b'"b"', b'"c"'), id="a changed word"),
        pytest.param(lambda text: text.replace(b'"kind":"use"', b'"kind":"us', 2), id="no JSON"),
        pytest.param(lambda text: text[: text.rfind(b"b")], id="a torn end"),
        pytest.param(lambda text: text + b"[1]\n\xff\xfe\n", id="strange lines"),
        pytest.param(lambda text: text + b"[" * 100_000 + b"\n", id="a deep line"),
    ],
)
def test_damaged_lines_are_counted_and_the_others_stay(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    ledger = HoldoutLedger(tmp_path / "ledger.jsonl")
    for champion in "ab":
        ledger.record({"champion": champion}, DATA)
    ledger.path.write_bytes(damage(ledger.path.read_bytes()))
    lines, damaged = ledger.record({"champion": "new"}, DATA)
    assert damaged >= 1
    assert lines[-1]["champion"] == "new"
    again, still = ledger.record({"champion": "newer"}, DATA)
    assert still == damaged
    assert [line.get("champion") for line in again][-2:] == ["new", "newer"]


def test_a_description_that_was_damaged_is_written_again(tmp_path: Path) -> None:
    ledger = HoldoutLedger(tmp_path / "ledger.jsonl")
    ledger.record({"champion": "a"}, DATA)
    ledger.path.write_bytes(ledger.path.read_bytes().replace(b"sp20", b"sp21"))
    lines, damaged = ledger.record({"champion": "b"}, DATA)
    assert damaged == 1
    assert [line["kind"] for line in lines] == ["use", "holdout", "use"]


def test_a_ledger_deleted_while_somebody_waits_for_it_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = HoldoutLedger(tmp_path / "ledger.jsonl")
    ledger.record({"champion": "a"}, DATA)
    lock, waits = fcntl.flock, [True]

    def deleted_meanwhile(descriptor: int, operation: int) -> None:
        lock(descriptor, operation)
        if waits.pop() if waits else False:
            ledger.path.unlink()

    monkeypatch.setattr(fcntl, "flock", deleted_meanwhile)
    ledger.record({"champion": "b"}, DATA)
    assert uses(ledger) == ["b"]


def test_the_users_ledger_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EIGEN2_LEDGER", str(tmp_path / "shared.jsonl"))
    assert user_ledger().path == tmp_path / "shared.jsonl"
    monkeypatch.setenv("EIGEN2_LEDGER", str(tmp_path))
    assert user_ledger().path == tmp_path / "holdout-uses.jsonl"
    monkeypatch.delenv("EIGEN2_LEDGER")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert user_ledger().path == tmp_path / "eigen2" / "holdout-uses.jsonl"
    monkeypatch.setenv("XDG_DATA_HOME", "relative, which the specification says to ignore")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert user_ledger().path == tmp_path / "home" / ".local" / "share" / "eigen2" / "holdout-uses.jsonl"


def test_a_line_is_one_json_object(tmp_path: Path) -> None:
    ledger = HoldoutLedger(tmp_path / "ledger.jsonl")
    ledger.record({"champion": "a\nb"}, DATA)
    assert all(isinstance(json.loads(line), dict) for line in ledger.path.read_bytes().splitlines())
