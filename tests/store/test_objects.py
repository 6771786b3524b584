"""Objects are named by their content, written once, complete under their name, and proven when read."""

import hashlib
import os
from pathlib import Path

import pytest

from eigen2.errors import DamagedStateError
from eigen2.store.durable import TEMPORARY
from eigen2.store.objects import Objects, Ref


def test_an_object_is_stored_under_its_hash(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "objects")
    ref = objects.put(b"hello")
    name = hashlib.sha256(b"hello").hexdigest()
    assert ref == Ref(name, 5)
    assert (tmp_path / "objects" / name[:2] / name[2:]).read_bytes() == b"hello"
    assert objects.read(name) == b"hello"
    assert list(objects.list()) == [name]


@pytest.mark.parametrize("kind", [list, tuple])
def test_chunks_are_stored_as_their_concatenation(tmp_path: Path, kind: type) -> None:
    objects = Objects(tmp_path)
    ref = objects.put(kind([b"ab", bytearray(b"cd"), memoryview(b"ef"), b""]))
    assert objects.read(ref.hash) == b"abcdef"
    assert ref.size == 6


def test_the_empty_object_is_an_object(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    assert objects.read(objects.put(b"").hash) == b""


def test_a_present_object_is_not_written_again(tmp_path: Path) -> None:
    ref = Objects(tmp_path).put(b"same")
    path = Objects(tmp_path).path(ref.hash)
    inode = path.stat().st_ino
    assert Objects(tmp_path).put([b"sa", b"me"]) == ref
    assert path.stat().st_ino == inode
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]


@pytest.mark.parametrize("damage", [b"sane", b"sam", b""])
def test_a_damaged_object_is_healed_by_putting_it_again(tmp_path: Path, damage: bytes) -> None:
    ref = Objects(tmp_path).put(b"same")
    path = Objects(tmp_path).path(ref.hash)
    path.write_bytes(damage)
    with pytest.raises(DamagedStateError, match=path.name):
        Objects(tmp_path).read(ref.hash)
    assert Objects(tmp_path).find(ref.hash) is None
    Objects(tmp_path).put(b"same")
    assert Objects(tmp_path).read(ref.hash) == b"same"


def test_a_missing_object_is_named(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    ref = objects.put(b"gone")
    assert objects.find(ref.hash) == ref
    objects.delete(ref.hash)
    assert objects.find(ref.hash) is None
    for look in (objects.read, objects.check):
        with pytest.raises(DamagedStateError, match=f"{objects.path(ref.hash)} is missing"):
            look(ref.hash)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        Objects(tmp_path).put(b"some")
    assert list(tmp_path.iterdir()) == []


def test_clean_removes_only_the_leftovers_of_a_killed_writer(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    ref = objects.put(b"keep")
    (tmp_path / f"{TEMPORARY}123").write_bytes(b"half")
    assert [path.name for path in objects.strangers()] == [f"{TEMPORARY}123"]
    assert objects.clean() == 1
    assert objects.read(ref.hash) == b"keep"
    assert list(objects.strangers()) == []


@pytest.mark.parametrize(
    "name", ["", "..", "../../etc/passwd", "A" * 64, "a" * 63, "a" * 65, "a" * 64 + "\n"]
)
def test_only_hashes_are_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no object name"):
        Objects(tmp_path).path(name)


class Calls:
    """Records which files are fsynced, and in which order relative to renames."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[tuple[str, str]] = []
        fsync, replace = os.fsync, os.replace

        def recording_fsync(descriptor: int) -> None:
            self.log.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))
            fsync(descriptor)

        def recording_replace(source: Path, target: Path) -> None:
            self.log.append(("rename", str(target)))
            replace(source, target)

        monkeypatch.setattr(os, "fsync", recording_fsync)
        monkeypatch.setattr(os, "replace", recording_replace)

    def synced(self) -> list[str]:
        return [path for kind, path in self.log if kind == "fsync"]


def test_content_is_synced_before_the_rename_and_the_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    objects = Objects(tmp_path)
    path = objects.path(objects.put(b"x").hash)
    rename = calls.log.index(("rename", str(path)))
    assert TEMPORARY in calls.log[rename - 1][1]
    assert ("fsync", str(path.parent)) in calls.log[rename:]
    assert ("fsync", str(tmp_path)) in calls.log[rename:]


def test_a_batch_syncs_each_directory_once_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    objects = Objects(tmp_path)
    with objects.batch():
        paths = [objects.path(objects.put(bytes([number])).hash) for number in range(100)]
        assert all(TEMPORARY in path for path in calls.synced())
    directories = [path for path in calls.synced() if TEMPORARY not in path]
    assert sorted(directories) == sorted({str(path.parent) for path in paths} | {str(tmp_path)})


@pytest.mark.parametrize("put", [True, False])
def test_an_object_of_a_killed_process_is_made_durable_before_it_is_relied_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: bool
) -> None:
    ref = Objects(tmp_path).put(b"x")
    calls = Calls(monkeypatch)
    assert (Objects(tmp_path).put(b"x") if put else Objects(tmp_path).find(ref.hash)) == ref
    assert sorted(calls.synced()) == sorted([str(tmp_path), str(Objects(tmp_path).path(ref.hash).parent)])


def test_a_directory_whose_sync_failed_is_synced_by_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = Objects(tmp_path)
    with monkeypatch.context() as failing:
        fsync = os.fsync

        def fail_on_directories(descriptor: int) -> None:
            if os.path.isdir(f"/proc/self/fd/{descriptor}"):
                raise OSError(5, "Input/output error")
            fsync(descriptor)

        failing.setattr(os, "fsync", fail_on_directories)
        with pytest.raises(OSError, match="Input/output error"):
            objects.put(b"x")
    calls = Calls(monkeypatch)
    ref = objects.put(b"x")
    assert str(objects.path(ref.hash).parent) in calls.synced()
