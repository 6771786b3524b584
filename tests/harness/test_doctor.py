"""`eigen2 doctor` says of each part whether it is ready, and what to do if not."""

from pathlib import Path

import pytest

from eigen2.config import load_config
from eigen2.harness import doctor


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (check,) = [check for check in doctor._disk(tmp_path / "file" / "runs") if check.name == "files"]
    assert not check.ok
    assert str(tmp_path / "file") in check.found


def test_a_cloud_that_does_not_work_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    check = doctor._cloud(load_config(["cloud.url=s3://bucket/runs"]))
    assert not check.ok
    assert "credentials" in check.found
    assert doctor._cloud(load_config([f"cloud.url=file://{tmp_path}/copy"])).ok


def test_a_device_that_is_not_there_is_said() -> None:
    import torch

    assert doctor._torch(load_config([])).ok
    if not torch.cuda.is_available():
        check = doctor._torch(load_config(["device=cuda"]))
        assert not check.ok
        assert "device=auto" in check.found


def test_a_command_that_fails_says_why() -> None:
    check = doctor._command("trial", "train", "no.such.key=1")
    assert not check.ok
    assert "ended with 2" in check.found
    assert "no.such.key" in check.found
