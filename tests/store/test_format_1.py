"""Checkpoints of format 1 are read, restored, and rewritten as the present format when they are rotated."""

import json
import shutil
from pathlib import Path

import pytest

from eigen2.replay import Replay
from eigen2.replay.snapshot import verify_segments
from eigen2.store.checkpoints import Checkpoints, NewCheckpoint
from eigen2.store.integrity import verify
from eigen2.store.memory import MemoryObjects

RUNS = sorted((Path(__file__).parents[1] / "upgrade" / "format1").iterdir())


@pytest.fixture(params=RUNS, ids=lambda run: run.name)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(request.param, tmp_path / "run"))


def test_its_objects_hold_and_its_replay_writes_itself_again_bit_for_bit(run: Path) -> None:
    assert verify(Checkpoints(run)).ok
    checkpoint = Checkpoints(run).load("latest")
    stored = checkpoint.manifest.replay
    assert stored is not None
    assert verify_segments(stored, checkpoint.objects.read) == len(checkpoint.manifest.below("replay/"))
    copies = MemoryObjects()
    again = Replay.restore(stored, checkpoint.objects.read).snapshot().write(copies.put, copies.has)
    assert again | {"ram_bytes": 0} == {**stored, "ram_bytes": 0}
    assert copies == {name: checkpoint.objects.read(name) for name in checkpoint.manifest.below("replay/")}


def test_the_next_save_rotates_it_as_the_present_format(run: Path) -> None:
    checkpoints = Checkpoints(run)
    old = json.loads(checkpoints.path("latest").read_text())["body"]
    latest = checkpoints.load("latest")
    checkpoints.save(NewCheckpoint(latest.manifest.step + 1, latest.state(), identity={"version": "2"}))
    previous = checkpoints.load("previous")
    assert previous.manifest.identity == {"config_hash": old["config_hash"], "data": old["data_fingerprint"]}
    assert previous.manifest.objects == latest.manifest.objects
    assert json.loads(checkpoints.path("previous").read_text())["body"]["format"] == 3
    carried = checkpoints.load("latest").manifest
    assert (carried.replay, carried.replay_step) == (latest.manifest.replay, latest.manifest.replay_step)
    assert carried.below("replay/") == latest.manifest.below("replay/")
    assert verify(Checkpoints(run)).ok
