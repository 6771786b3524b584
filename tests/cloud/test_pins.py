"""What waits for its upload is kept, and is no damage."""

import shutil
from pathlib import Path

from command_lab import Lab

from eigen2.cloud.pins import Pins, pinned_objects
from eigen2.store.checkpoints import Checkpoints


def queued(finished: Path, tmp_path: Path) -> tuple[Path, Pins]:
    run = tmp_path / "mine"
    shutil.copytree(finished, run)
    pins = Pins(run, "file:///somewhere")
    pins.write(Checkpoints(run).contents())
    return run, pins


def test_a_whole_run_with_a_queued_batch_verifies(lab: Lab, finished: Path, tmp_path: Path) -> None:
    run, _ = queued(finished, tmp_path)
    done = lab.run("verify", run)
    assert (done.code, done.err) == (0, "")


def test_the_objects_of_a_queued_batch_are_pinned(finished: Path, tmp_path: Path) -> None:
    run, _ = queued(finished, tmp_path)
    manifests = Checkpoints(run).good().values()
    assert pinned_objects(run) == {ref.hash for manifest in manifests for ref in manifest.objects.values()}


def test_a_batch_that_cannot_be_read_pins_all_that_it_may_mean(finished: Path, tmp_path: Path) -> None:
    run, pins = queued(finished, tmp_path)
    named = pinned_objects(run)
    pins.path.write_bytes(pins.path.read_bytes()[:-20])
    assert pinned_objects(run) > named
