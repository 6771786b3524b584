"""The user's own data is an object like any other, named by every checkpoint of the run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eigen2.errors import DamagedStateError
from eigen2.store.checkpoints import Checkpoints, NewCheckpoint
from eigen2.store.integrity import verify
from eigen2.store.manifest import OWN_DATA
from eigen2.store.objects import Objects, Ref

StateAt = Callable[[int], dict[str, Any]]


def prices(objects: Objects) -> Ref:
    return objects.put(b"prices")


@pytest.fixture
def checkpoints(tmp_path: Path, state_at: StateAt) -> Checkpoints:
    found = Checkpoints(tmp_path)
    for step in range(4):
        roles = {0: ["init"], 1: ["best"], 3: ["final"]}.get(step, [])
        found.save(NewCheckpoint(step, state_at(step), own_data=prices), roles)
    return found


def test_all_checkpoints_name_it_and_nothing_collects_it(checkpoints: Checkpoints) -> None:
    assert len(checkpoints.names()) == 5
    assert {checkpoints.load(name).manifest.objects[OWN_DATA] for name in checkpoints.names()} == {
        prices(checkpoints.objects)
    }
    checkpoints.collect_garbage()
    for name in checkpoints.names():
        file = checkpoints.load(name).own_data()
        assert file is not None
        assert file.read_bytes() == b"prices"


def test_a_run_without_own_data_names_none(tmp_path: Path, state_at: StateAt) -> None:
    for own_data in (None, lambda objects: None):
        Checkpoints(tmp_path).save(NewCheckpoint(0, state_at(0), own_data=own_data))
        checkpoint = Checkpoints(tmp_path).load("latest")
        assert OWN_DATA not in checkpoint.manifest.objects
        assert checkpoint.own_data() is None


def test_a_damaged_copy_makes_no_checkpoint_good_unless_it_is_not_needed(checkpoints: Checkpoints) -> None:
    file = checkpoints.objects.path(prices(checkpoints.objects).hash)
    file.write_bytes(b"prizes")
    fresh = Checkpoints(checkpoints.directory.parent)
    with pytest.raises(
        DamagedStateError, match=f"{file} is damaged.*a resume that names the file puts it back"
    ):
        fresh.newest_good()
    recovery = fresh.newest_good(own_data=False)
    assert recovery.refused == ()
    assert recovery.checkpoint is not None
    assert recovery.checkpoint.manifest.step == 3


def test_another_copy_of_the_same_data_takes_its_place(checkpoints: Checkpoints) -> None:
    """Another version may write the same data in other bytes."""
    checkpoints.objects.path(prices(checkpoints.objects).hash).unlink()
    fresh = Checkpoints(checkpoints.directory.parent)
    other = fresh.objects.put(b"prices, in other words")
    fresh.adopt_own_data(other)
    assert {fresh.load(name).manifest.objects[OWN_DATA] for name in fresh.names()} == {other}
    assert fresh.newest_good().refused == ()
    assert verify(fresh).ok
