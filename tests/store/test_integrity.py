"""`verify` finds every damaged byte, everything missing, and says what is merely left over."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from eigen2.store.checkpoints import Checkpoints, NewCheckpoint
from eigen2.store.integrity import verify

StateAt = Callable[[int], dict[str, Any]]


def small_run(run_dir: Path) -> Checkpoints:
    checkpoints = Checkpoints(run_dir)
    for step in range(3):
        state = {"weight": np.full(4, step, np.float32), "step": step}
        checkpoints.save(NewCheckpoint(step, state), ["init"] if step == 0 else [])
    return checkpoints


def test_a_good_run_verifies(tmp_path: Path) -> None:
    checkpoints = small_run(tmp_path)
    report = verify(Checkpoints(tmp_path))
    assert report.ok
    assert report.manifests == ("init", "previous", "latest")
    files = [checkpoints.objects.path(name) for name in checkpoints.objects.list()]
    assert (report.objects, report.bytes) == (len(files), sum(file.stat().st_size for file in files))
    assert report.as_dict()["ok"] is True
    assert (report.damaged, report.missing, report.orphaned) == ((), (), ())


def test_every_flipped_byte_of_every_file_is_detected(tmp_path: Path) -> None:
    small_run(tmp_path)
    files = [path for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    for path in files:
        content = path.read_bytes()
        for position in range(len(content)):
            path.write_bytes(content[:position] + bytes([content[position] ^ 0x20]) + content[position + 1 :])
            report = verify(Checkpoints(tmp_path))
            assert not report.ok, f"byte {position} of {path}"
            assert any(str(path) in sentence for sentence in report.damaged)
        path.write_bytes(content)
    assert verify(Checkpoints(tmp_path)).ok


def test_a_truncated_or_longer_file_is_detected(tmp_path: Path) -> None:
    small_run(tmp_path)
    for path in [path for path in sorted(tmp_path.rglob("*")) if path.is_file() and path.suffix != ".lock"]:
        content = path.read_bytes()
        for wrong in (b"", content[:-1], content + b"\0"):
            path.write_bytes(wrong)
            assert not verify(Checkpoints(tmp_path)).ok
        path.write_bytes(content)


def test_every_missing_object_is_named_with_its_checkpoint(tmp_path: Path) -> None:
    checkpoints = small_run(tmp_path)
    for name in list(checkpoints.objects.list()):
        path = checkpoints.objects.path(name)
        content = path.read_bytes()
        path.unlink()
        report = verify(Checkpoints(tmp_path))
        assert not report.ok
        assert all(str(path) in sentence and "checkpoint '" in sentence for sentence in report.missing)
        path.write_bytes(content)


def test_leftovers_are_reported_but_are_no_damage(tmp_path: Path) -> None:
    checkpoints = small_run(tmp_path)
    orphan = checkpoints.objects.path(checkpoints.objects.put(b"orphan").hash)
    (tmp_path / "objects" / ".incoming-1").write_bytes(b"half")
    report = verify(Checkpoints(tmp_path))
    assert report.ok
    assert report.orphaned == (str(orphan), str(tmp_path / "objects" / ".incoming-1"))


def test_a_run_without_checkpoints_is_empty_not_damaged(tmp_path: Path) -> None:
    report = verify(Checkpoints(tmp_path))
    assert report.ok
    assert (report.objects, report.manifests) == (0, ())
