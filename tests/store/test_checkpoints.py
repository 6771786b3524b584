"""What was saved comes back, damage is refused by name, and only garbage is collected."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eigen2.errors import DamagedStateError, ResourceError
from eigen2.store import checkpoints as checkpoints_module
from eigen2.store.checkpoints import SAVE_FAILURES, Checkpoint, Checkpoints, NewCheckpoint
from eigen2.store.durable import TEMPORARY
from eigen2.store.integrity import verify
from eigen2.store.manifest import Manifest
from eigen2.store.objects import Objects, reference
from eigen2.store.retention import live_objects
from eigen2.store.state import fingerprint

StateAt = Callable[[int], dict[str, Any]]


def flip(path: Path, position: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(bytes(content))


def damage_object(checkpoints: Checkpoints, manifest: Manifest, logical: str) -> None:
    flip(checkpoints.objects.path(manifest.objects[logical].hash))


def test_a_saved_state_comes_back_in_a_fresh_process(tmp_path: Path, state_at: StateAt) -> None:
    saved = Checkpoints(tmp_path).save(
        NewCheckpoint(
            3,
            state_at(3),
            metrics={"fitness": 1.5},
            logs={"metrics": 77},
            identity={"config": {"seed": 1}, "data": "d"},
        )
    )
    recovery = Checkpoints(tmp_path).newest_good()
    assert recovery.refused == ()
    assert recovery.checkpoint is not None
    assert recovery.checkpoint.manifest == saved
    assert (saved.step, saved.metrics, saved.logs) == (3, {"fitness": 1.5}, {"metrics": 77})
    assert saved.identity == {"config": {"seed": 1}, "data": "d"}
    assert fingerprint(recovery.checkpoint.state()) == fingerprint(state_at(3))


def test_an_empty_run_has_nothing_to_resume(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path).newest_good().checkpoint is None
    assert Checkpoints(tmp_path).collect_garbage() == 0


def test_the_five_names_hold_what_they_say(tmp_path: Path, state_at: StateAt) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in range(6):
        roles = {0: ["init"], 2: ["best"], 5: ["final"]}.get(step, [])
        checkpoints.save(NewCheckpoint(step, state_at(step)), roles)
    steps = {name: checkpoints.load(name).manifest.step for name in checkpoints.names()}
    assert steps == {"init": 0, "best": 2, "previous": 4, "latest": 5, "final": 5}
    for name, step in steps.items():
        assert fingerprint(checkpoints.load(name).state()) == fingerprint(state_at(step))


def test_disk_holds_the_kept_checkpoints_and_nothing_else(tmp_path: Path, state_at: StateAt) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in range(10):
        checkpoints.save(NewCheckpoint(step, state_at(step)), ["init"] if step == 0 else [])
    kept = [checkpoints.load(name).manifest for name in checkpoints.names()]
    assert set(checkpoints.objects.list()) == live_objects(kept)
    frozen = {manifest.objects["state/frozen.0.safetensors"] for manifest in kept}
    assert len(frozen) == 1


def test_an_object_pinned_by_an_upload_stays(tmp_path: Path, state_at: StateAt) -> None:
    pins: set[str] = set()
    checkpoints = Checkpoints(tmp_path, pinned=lambda: pins)
    first = checkpoints.save(NewCheckpoint(0, state_at(0)))
    pins.add(first.objects["state/actor.0.safetensors"].hash)
    for step in range(1, 4):
        checkpoints.save(NewCheckpoint(step, state_at(step)))
    assert pins < set(checkpoints.objects.list())
    pins.clear()
    assert checkpoints.collect_garbage() == 1


def test_an_object_that_is_pinned_and_then_put_survives_garbage_collection_at_any_moment(
    tmp_path: Path, state_at: StateAt
) -> None:
    """Another process pins and puts between any two steps of the collection."""
    content = b"series of an evaluation"
    name = reference([content]).hash
    writer, pins = Objects(tmp_path / "objects"), set[str]()

    def pin_and_put() -> None:
        pins.add(name)
        writer.put(content)

    for moment in ("list", "pins", "delete"):
        checkpoints = Checkpoints(tmp_path, pinned=lambda: set(pins))
        checkpoints.save(NewCheckpoint(1, state_at(1)))
        checkpoints.objects.put(b"garbage")
        meanwhile(checkpoints, moment, pin_and_put)
        assert checkpoints.collect_garbage() == 1, moment
        assert checkpoints.collect_garbage() == 0, moment
        assert writer.read(name) == content
        pins.clear()
        writer.delete(name)


def meanwhile(checkpoints: Checkpoints, moment: str, event: Callable[[], None]) -> None:
    """Let `event` happen, once, just before the collection lists objects, reads the pins or deletes."""
    objects, names, pinned = checkpoints.objects, checkpoints.objects.list, checkpoints.pinned
    delete, pending = objects.delete, [event]

    def after(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if step == moment and pending:
                pending.pop()()
            return function(*arguments)

        return call

    objects.list = after("list", names)  # type: ignore[method-assign]
    checkpoints.pinned = after("pins", pinned)
    objects.delete = after("delete", delete)  # type: ignore[method-assign]


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers cannot keep objects from being collected, as on a read-only file system."""
    monkeypatch.setattr(Objects, "_lock_file", lambda self: None)


@pytest.mark.parametrize("look", ["read_newest", "read", "verify"])
def test_a_reader_on_a_slow_disk_is_not_overtaken_by_a_trainer(
    tmp_path: Path, state_at: StateAt, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    """Two checkpoints are saved, and garbage would be collected, between any two objects that are read."""
    trained, looked_at, steps = Checkpoints(tmp_path), Checkpoints(tmp_path), iter(range(3, 1000))
    for step in (1, 2):
        trained.save(NewCheckpoint(step, state_at(step)))
    opened = looked_at.objects._opened

    def slowly(name: str, *more: Any) -> Any:
        for _ in range(2):
            step = next(steps)
            trained.save(NewCheckpoint(step, state_at(step)))
        return opened(name, *more)

    monkeypatch.setattr(looked_at.objects, "_opened", slowly)
    if look == "verify":
        report = verify(looked_at)
        assert report.ok, report.damaged + report.missing
    elif look == "read":
        checkpoint, state = looked_at.read("latest", Checkpoint.state)
        assert fingerprint(state) == fingerprint(state_at(checkpoint.manifest.step))
    else:
        recovery, found = looked_at.read_newest(Checkpoint.state)
        assert (recovery.refused, recovery.checkpoint is not None) == ((), True)
        assert found is not None
        assert fingerprint(found) == fingerprint(state_at(2))
    step = next(steps)
    trained.save(NewCheckpoint(step, state_at(step)))
    kept = {ref.hash for name in trained.names() for ref in trained.load(name).manifest.objects.values()}
    assert set(trained.objects.list()) == kept


def test_a_reader_that_is_always_too_slow_and_has_no_locks_is_told(
    tmp_path: Path, state_at: StateAt, without_locks: None
) -> None:
    trained, steps = Checkpoints(tmp_path), iter(range(1, 100_000))

    def overtaken(checkpoint: Checkpoint) -> None:
        trained.path("latest").write_bytes(b"%d" % next(steps))
        raise DamagedStateError("gone")

    for step in (1, 2):
        trained.save(NewCheckpoint(step, state_at(step)))
    with pytest.raises(ResourceError, match="faster than they can be read"):
        Checkpoints(tmp_path).read_newest(overtaken)


def test_a_reader_does_not_wait_for_a_collector_that_was_stopped(
    tmp_path: Path, state_at: StateAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eigen2.store.objects.PATIENCE", 0.0)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(1, state_at(1)))
    with checkpoints.objects.without_guests() as alone:
        assert alone
        assert Checkpoints(tmp_path).newest_good().checkpoint is not None


def test_the_first_state_can_be_saved_later(tmp_path: Path, state_at: StateAt, tiny_replay: Any) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save_first(NewCheckpoint(0, state_at(0)))
    checkpoints.save(NewCheckpoint(3, state_at(3), tiny_replay([b"one"])))
    assert checkpoints.names() == ["init", "latest"]
    assert fingerprint(checkpoints.load("init").state()) == fingerprint(state_at(0))
    assert verify(checkpoints).ok


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, state_at: StateAt, without_locks: None
) -> None:
    training = Checkpoints(tmp_path)
    training.save(NewCheckpoint(1, state_at(1)))

    def read(checkpoint: Checkpoint) -> dict[str, Any]:
        if checkpoint.manifest.step < 3:
            for step in (2, 3):
                training.save(NewCheckpoint(step, state_at(step), metrics={"loss": math.nan}))
        return checkpoint.state()

    checkpoint, state = Checkpoints(tmp_path).read("latest", read)
    assert checkpoint.manifest.step == 3
    assert fingerprint(state) == fingerprint(state_at(3))
    damage_object(training, checkpoint.manifest, "state/actor.0.safetensors")
    with pytest.raises(DamagedStateError, match="is damaged"):
        Checkpoints(tmp_path).read("latest", read)


def test_the_newest_checkpoint_of_a_run_that_trains_is_looked_for_again_when_it_is_replaced(
    tmp_path: Path, state_at: StateAt, without_locks: None
) -> None:
    """Whoever looks at a live run must neither call it damaged nor be given an older checkpoint."""
    trained, looked_at = Checkpoints(tmp_path), Checkpoints(tmp_path)
    for step in (1, 2):
        trained.save(NewCheckpoint(step, state_at(step)))
    left = [3, 4]

    def read(checkpoint: Checkpoint) -> int:
        while left:
            trained.save(NewCheckpoint(left[0], state_at(left.pop(0))))
        return int(checkpoint.state()["generation"])

    recovery, found = looked_at.read_newest(read)
    assert recovery.refused == ()
    assert recovery.checkpoint is not None
    assert recovery.checkpoint.manifest.step == found == 4


def test_a_damaged_latest_falls_back_to_previous_and_says_so(tmp_path: Path, state_at: StateAt) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(1, state_at(1)))
    checkpoints.save(NewCheckpoint(2, state_at(2)))
    flip(checkpoints.path("latest"), 30)
    recovery = Checkpoints(tmp_path).newest_good()
    assert recovery.checkpoint is not None
    assert recovery.checkpoint.manifest.name == "previous"
    assert fingerprint(recovery.checkpoint.state()) == fingerprint(state_at(1))
    assert len(recovery.refused) == 1
    assert str(checkpoints.path("latest")) in recovery.refused[0]


def test_a_damaged_object_refuses_the_checkpoint_that_needs_it(tmp_path: Path, state_at: StateAt) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(1, state_at(1)))
    latest = checkpoints.save(NewCheckpoint(2, state_at(2)))
    damage_object(checkpoints, latest, "state/actor.0.safetensors")
    recovery = Checkpoints(tmp_path).newest_good()
    assert recovery.checkpoint is not None
    assert recovery.checkpoint.manifest.step == 1
    assert "'latest' at step 2 is refused" in recovery.refused[0]


def test_a_damaged_latest_never_displaces_a_good_previous(tmp_path: Path, state_at: StateAt) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(1, state_at(1)))
    damage_object(checkpoints, checkpoints.save(NewCheckpoint(5, state_at(5))), "state/actor.0.safetensors")
    resumed = Checkpoints(tmp_path)
    resumed.save(NewCheckpoint(7, state_at(7)))
    assert resumed.load("previous").manifest.step == 1
    assert resumed.load("latest").manifest.step == 7


def test_repeating_a_damaged_step_heals_its_objects(tmp_path: Path, state_at: StateAt) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(1, state_at(1)))
    damage_object(checkpoints, checkpoints.save(NewCheckpoint(2, state_at(2))), "state/actor.0.safetensors")
    Checkpoints(tmp_path).save(NewCheckpoint(2, state_at(2)))
    recovery = Checkpoints(tmp_path).newest_good()
    assert recovery.checkpoint is not None
    assert (recovery.checkpoint.manifest.step, recovery.refused) == (2, ())


def test_when_everything_is_damaged_starting_over_is_not_silent(tmp_path: Path, state_at: StateAt) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in range(2):
        checkpoints.save(NewCheckpoint(step, state_at(step)))
    flip(checkpoints.path("latest"))
    flip(checkpoints.path("previous"))
    with pytest.raises(
        DamagedStateError, match=r"no checkpoint .* 'latest' is refused.* 'previous' is refused"
    ):
        Checkpoints(tmp_path).newest_good()


def test_a_damaged_manifest_still_protects_its_objects(tmp_path: Path, state_at: StateAt) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(0, state_at(0)), ["best"])
    best = checkpoints.load("best")
    flip(checkpoints.path("best"), 5)
    resumed = Checkpoints(tmp_path)
    for step in range(1, 4):
        resumed.save(NewCheckpoint(step, state_at(step)))
    best.verify()


def test_the_newest_step_wins_whatever_its_name(tmp_path: Path, state_at: StateAt) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(5, state_at(5)), ["final"])
    checkpoints.save(NewCheckpoint(6, state_at(6)))
    recovery = checkpoints.newest_good()
    assert recovery.checkpoint is not None
    assert recovery.checkpoint.manifest.step == 6


def test_replay_objects_are_written_once_and_dropped_when_no_longer_named(
    tmp_path: Path, state_at: StateAt, tiny_replay: Any
) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(0, state_at(0), tiny_replay([b"one", b"two"])), ["init"])
    snapshot = tiny_replay([b"two", b"three"])
    manifest = Checkpoints(tmp_path).save(NewCheckpoint(1, state_at(1), snapshot))
    assert [snapshot.contents[name] for name in snapshot.written] == [b"three"]
    checkpoint = Checkpoints(tmp_path).load("latest")
    assert checkpoint.manifest.replay == snapshot.manifest
    assert {name: checkpoint.objects.read(name) for name in snapshot.contents} == snapshot.contents
    assert sum(name.startswith("replay/") for name in manifest.objects) == 2
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(2, state_at(2), tiny_replay([b"three"])))
    checkpoints.save(NewCheckpoint(3, state_at(3), tiny_replay([b"three"])))
    stored = {checkpoints.objects.read(name) for name in checkpoints.objects.list()}
    assert b"three" in stored
    assert not {b"one", b"two"} & stored


def test_a_damaged_replay_object_is_asked_for_again(
    tmp_path: Path, state_at: StateAt, tiny_replay: Any
) -> None:
    snapshot = tiny_replay([b"one"])
    manifest = Checkpoints(tmp_path).save(NewCheckpoint(0, state_at(0), snapshot))
    damage_object(Checkpoints(tmp_path), manifest, f"replay/{snapshot.written[0]}")
    again = tiny_replay([b"one"])
    Checkpoints(tmp_path).save(NewCheckpoint(1, state_at(1), again))
    assert again.written == snapshot.written
    assert Checkpoints(tmp_path).load("latest").objects.read(again.written[0]) == b"one"


def test_a_thinned_out_replay_is_carried_over(tmp_path: Path, state_at: StateAt, tiny_replay: Any) -> None:
    checkpoints = Checkpoints(tmp_path)
    snapshot = tiny_replay([b"one"])
    checkpoints.save(NewCheckpoint(0, state_at(0), snapshot))
    for step in range(1, 5):
        checkpoints.save(NewCheckpoint(step, state_at(step)))
    latest = checkpoints.load("latest")
    assert (latest.manifest.step, latest.manifest.replay_step) == (4, 0)
    assert latest.objects.read(snapshot.written[0]) == b"one"


def test_init_and_best_carry_no_replay(tmp_path: Path, state_at: StateAt, tiny_replay: Any) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(0, state_at(0), tiny_replay([b"one"])), ["init", "best", "final"])
    for name, has_replay in (("init", False), ("best", False), ("latest", True), ("final", True)):
        manifest = checkpoints.load(name).manifest
        assert (manifest.replay is not None) == has_replay
        assert any(logical.startswith("replay/") for logical in manifest.objects) == has_replay


def test_a_state_that_cannot_be_stored_changes_nothing(tmp_path: Path, state_at: StateAt) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(1, state_at(1)))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(TypeError, match="/zebra in the state"):
        checkpoints.save(NewCheckpoint(2, state_at(2) | {"zebra": object()}))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_replay_manifest_that_is_no_json_changes_no_manifest(
    tmp_path: Path, state_at: StateAt, tiny_replay: Any
) -> None:
    class Odd(tiny_replay):  # type: ignore[misc]
        manifest = {"segments": [{1, 2}]}

    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(1, state_at(1)))
    before = checkpoints.path("latest").read_bytes()
    with pytest.raises(TypeError):
        checkpoints.save(NewCheckpoint(2, state_at(2), Odd([])))
    assert checkpoints.path("latest").read_bytes() == before
    assert checkpoints.names() == ["latest"]


def test_a_predicted_lack_of_room_refuses_before_writing(
    tmp_path: Path, state_at: StateAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(1, state_at(1)))
    before = sorted(checkpoints.objects.list())
    monkeypatch.setattr(checkpoints_module, "MARGIN_BYTES", 10**18)
    with pytest.raises(SAVE_FAILURES) as failure:
        checkpoints.save(NewCheckpoint(2, state_at(2)))
    assert isinstance(failure.value, ResourceError)
    assert sorted(checkpoints.objects.list()) == before


def test_clean_removes_what_a_killed_save_left(tmp_path: Path, state_at: StateAt) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(NewCheckpoint(1, state_at(1)))
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    checkpoints.objects.put(b"orphan")
    (tmp_path / "objects" / f"{TEMPORARY}1").write_bytes(b"half")
    (tmp_path / "checkpoints" / f"{TEMPORARY}2").write_bytes(b"half")
    Checkpoints(tmp_path).clean()
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


def test_an_unknown_checkpoint_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no checkpoint called 'newest'"):
        Checkpoints(tmp_path).load("newest")


def test_an_unknown_role_is_refused_and_changes_nothing(tmp_path: Path, state_at: StateAt) -> None:
    with pytest.raises(ValueError, match=r"can be init, best, final, not \['previous'\]"):
        Checkpoints(tmp_path).save(NewCheckpoint(1, state_at(1)), ["previous"])
    assert Checkpoints(tmp_path).names() == []


def test_a_manifest_that_is_damaged_between_two_saves_is_noticed(tmp_path: Path, state_at: StateAt) -> None:
    """What it said before is remembered, but the file counts."""
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(NewCheckpoint(step, state_at(step)), ["init"] if step == 1 else [])
    assert set(checkpoints.good()) == {"init", "previous", "latest"}
    path = checkpoints.path("previous")
    good = path.read_bytes()
    path.write_bytes(good.replace(b'"step": 1', b'"step": 0'))
    assert set(checkpoints.good()) == {"init", "latest"}
    path.write_bytes(good)
    assert set(checkpoints.good()) == {"init", "previous", "latest"}
