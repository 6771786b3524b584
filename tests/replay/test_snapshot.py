"""A snapshot is the replay of one moment: complete, incremental, unharmed by what happens next, and checked."""

import json
import threading
from typing import Any

import numpy as np
import pytest
import torch

from eigen2.errors import DamagedStateError
from eigen2.replay import Replay, Schema
from eigen2.replay.snapshot import manifest_info, manifest_segments, verify_segments
from eigen2.store.memory import MemoryObjects


class Disk(MemoryObjects):
    """Remembers what the last save wrote; manifests come as they would be read back from JSON."""

    def save(self, replay: Replay) -> dict[str, Any]:
        before = dict(self)
        manifest: dict[str, Any] = json.loads(json.dumps(replay.snapshot().write(self.put, self.has)))
        self.new = {name: content for name, content in self.items() if name not in before}
        assert manifest_segments(manifest) == {name: len(self[name]) for name in manifest_segments(manifest)}
        return manifest


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    return (
        all(same(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)
        if one
        else True
    )


def draw(replay: Replay, kind: str) -> Any:
    if kind == "uniform":
        return replay.sample(8)
    if kind == "n_step":
        return replay.sample(8, n_step=3, gamma=0.97)
    if kind == "prioritised":
        batch = replay.sample_prioritised(8, beta=0.4).clone()
        replay.update_priorities(batch.index, batch.step["reward"].abs().double().numpy() + 1e-3)
        return batch
    return replay.sample_sequences(8, 4)


@pytest.mark.parametrize("kind", ["uniform", "n_step", "prioritised", "sequences"])
@pytest.mark.parametrize("large", [False, True])
def test_after_restore_the_next_100_batches_are_bit_identical(
    small_schema: Schema, window_schema: Schema, source: Any, kind: str, large: bool
) -> None:
    schema = window_schema if large else small_schema
    replay, play = Replay(schema, 300, seed=4, alpha=0.7), source(schema, 5, 2)
    for _ in range(9):
        replay.extend_transitions(*play.steps(11))
        draw(replay, kind)
    disk = Disk()
    copy = Replay.restore(disk.save(replay), disk.read)
    for batch in range(100):
        assert same(draw(replay, kind), draw(copy, kind))
        if batch % 25 == 0:
            more = play.steps(6)
            replay.extend_transitions(*more)
            copy.extend_transitions(*more)


@pytest.mark.parametrize("repeat", [True, False])
def test_a_restored_replay_makes_the_same_snapshots_ever_after(
    window_schema: Schema, source: Any, repeat: bool
) -> None:
    replay, play, disk = (
        Replay(window_schema, 300, seed=4, alpha=0.7),
        source(window_schema, 5, 2, repeat),
        Disk(),
    )
    for _ in range(8):
        replay.extend_transitions(*play.steps(11))
        manifest = disk.save(replay)
        replay_again = Replay.restore(manifest, disk.read)
        again = disk.save(replay_again)
        assert again | {"ram_bytes": 0} == manifest | {"ram_bytes": 0}
        assert disk.new == {}
        more = play.steps(5)
        replay.extend_transitions(*more)
        replay_again.extend_transitions(*more)
        assert disk.save(replay_again)["parts"] == disk.save(replay)["parts"]
        replay = replay_again


def test_a_snapshot_writes_only_what_is_new(small_schema: Schema, source: Any) -> None:
    replay, play, disk = Replay(small_schema, 100_000, seed=4), source(small_schema, 50, 2), Disk()
    for _ in range(20):
        replay.extend_transitions(*play.steps(100))
    disk.save(replay)
    replay.extend_transitions(*play.steps(10))
    disk.save(replay)
    record = replay.ring.layout.nbytes
    assert sum(map(len, disk.new.values())) < (500 + replay.ring.segment_records) * record * 1.2
    disk.save(replay)
    assert disk.new == {}


def test_a_pending_snapshot_is_not_touched_by_later_steps(small_schema: Schema, source: Any) -> None:
    replay, play = Replay(small_schema, 200, seed=4), source(small_schema, 5, 2)
    for _ in range(10):
        replay.extend_transitions(*play.steps(20))
    disk = Disk()
    expected = disk.save(Replay.restore(disk.save(replay), disk.read))
    pending = replay.snapshot()
    for _ in range(30):
        replay.extend_transitions(*play.steps(20))
    late = MemoryObjects()
    assert pending.write(late.put, late.has) == expected
    assert late == {name: disk[name] for name in manifest_segments(expected)}


def test_snapshots_written_by_a_thread_while_steps_go_on_are_all_consistent(
    small_schema: Schema, source: Any
) -> None:
    replay, play, disk = Replay(small_schema, 400, seed=4), source(small_schema, 4, 2), Disk()
    manifests: list[dict[str, Any]] = []
    for _ in range(30):
        replay.extend_transitions(*play.steps(10))
        snapshot = replay.snapshot()
        expected = replay.transitions(np.arange(replay.links.first, replay.links.total)).clone()
        writer = threading.Thread(target=lambda s=snapshot: manifests.append(s.write(disk.put, disk.has)))
        writer.start()
        for _ in range(5):
            replay.extend_transitions(*play.steps(30))
        writer.join()
        copy = Replay.restore(manifests.pop(), disk.read)
        assert same(copy.transitions(np.arange(copy.links.first, copy.links.total)), expected)


@pytest.mark.parametrize("compress", [True, False])
def test_every_flipped_byte_is_refused_by_name(small_schema: Schema, source: Any, compress: bool) -> None:
    replay, play, disk = (
        Replay(small_schema, 64, seed=4, compress=compress),
        source(small_schema, 2, 2),
        Disk(),
    )
    replay.extend_transitions(*play.steps(9))
    manifest = disk.save(replay)
    name = manifest["parts"]["records"][0][2]
    good = disk[name]
    for position in range(0, len(good), 3):
        disk[name] = good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :]
        with pytest.raises(DamagedStateError, match=name):
            Replay.restore(manifest, disk.read)
    disk[name] = good[:-1]
    with pytest.raises(DamagedStateError, match=name):
        Replay.restore(manifest, disk.read)


def test_a_manifest_of_another_format_is_refused(small_schema: Schema) -> None:
    disk = Disk()
    manifest = disk.save(Replay(small_schema, 8, seed=0)) | {"format": 99}
    with pytest.raises(DamagedStateError, match="format 99, this version reads 1"):
        Replay.restore(manifest, disk.read)


def test_an_empty_replay_can_be_saved_and_restored(window_schema: Schema, source: Any) -> None:
    disk = Disk()
    copy = Replay.restore(disk.save(Replay(window_schema, 30, seed=0, alpha=0.5)), disk.read)
    assert len(copy) == 0
    copy.extend_transitions(*source(window_schema, 2, 0).steps(3))
    assert len(copy) == 6


def test_info_says_what_is_held_and_written(small_schema: Schema, source: Any) -> None:
    replay, play, disk = Replay(small_schema, 500, seed=4), source(small_schema, 5, 2), Disk()
    replay.extend_transitions(*play.steps(100))
    info = manifest_info(disk.save(replay))
    assert info["transitions"] == 500
    assert info["naive_bytes"] == 500 * (2 * 20 + 8 + 4 + 2)
    assert info["disk_bytes"] == sum(map(len, disk.values()))


def test_a_save_that_fails_half_way_lets_go_and_the_next_one_works(small_schema: Schema, source: Any) -> None:
    replay, play, disk = Replay(small_schema, 200, seed=4), source(small_schema, 5, 2), Disk()
    replay.extend_transitions(*play.steps(40))
    room = iter([True])

    def put(chunks: list[bytes]) -> str:
        if next(room, False):
            return disk.put(chunks)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        replay.snapshot().write(put, disk.has)
    assert all(segment._holders == 0 for segment in replay.ring.segments.values())
    manifest = disk.save(replay)
    assert len(Replay.restore(manifest, disk.read)) == 200
    assert verify_segments(manifest, disk.read) == len(disk)


@pytest.mark.parametrize("repeat", [True, False])
def test_a_segment_that_got_lost_is_written_again(window_schema: Schema, source: Any, repeat: bool) -> None:
    replay, play = Replay(window_schema, 300, seed=4, alpha=0.5), source(window_schema, 5, 2, repeat)
    replay.extend_transitions(*play.steps(80, end=0.3))
    disk = Disk()
    manifest, stored = disk.save(replay), dict(disk)
    restored = Replay.restore(manifest, disk.read)
    for one in (replay, restored):
        disk.clear()
        assert disk.save(one)["parts"] == manifest["parts"]
        assert disk == stored


def test_what_is_written_after_a_restore_obeys_the_new_setting(small_schema: Schema, source: Any) -> None:
    replay, play, disk = Replay(small_schema, 10_000, seed=4), source(small_schema, 50, 2), Disk()
    replay.extend_transitions(*play.steps(100))
    restored = Replay.restore(disk.save(replay), disk.read)
    restored.compress = False
    restored.extend_transitions(*play.steps(50))
    manifest = disk.save(restored)
    assert manifest["compress"] is False
    raw = sum(
        rows * replay.ring.layout.nbytes
        for _, rows, name, _ in manifest["parts"]["records"]
        if name in disk.new
    )
    assert sum(map(len, disk.new.values())) > raw
    assert same(Replay.restore(manifest, disk.read).sample(64), restored.sample(64))
