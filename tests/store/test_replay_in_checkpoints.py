"""The real replay inside real checkpoints: written incrementally, restored bit for bit, saved beside training."""

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from eigen2.replay.buffer import Replay
from eigen2.replay.schema import schema_from_spaces
from eigen2.store.background import BackgroundSaver
from eigen2.store.checkpoints import Checkpoints, NewCheckpoint
from eigen2.store.manifest import Manifest
from eigen2.store.state import fingerprint, freeze


def make_replay() -> Replay:
    schema = schema_from_spaces(gym.spaces.Box(-1, 1, (27,)), gym.spaces.Box(-1, 1, (8,)))
    return Replay(schema, capacity=20_000, seed=7)


def collect(replay: Replay, steps: int, stream: np.random.Generator) -> None:
    chunk = {
        "obs": stream.standard_normal((steps, 4, 27)).astype(np.float32),
        "action": stream.standard_normal((steps, 4, 8)).astype(np.float32),
        "reward": stream.standard_normal((steps, 4)).astype(np.float32),
        "terminated": np.zeros((steps, 4), bool),
        "truncated": np.arange(steps)[:, None].repeat(4, 1) == steps - 1,
    }
    replay.extend(chunk, {"obs": stream.standard_normal((4, 27)).astype(np.float32)})


def samples(replay: Replay) -> dict[str, Any]:
    batch = replay.sample(64).clone()
    runs = replay.sample_sequences(8, 4).clone()
    return {"batch": batch.observation, "index": batch.index, "runs": runs.observation}


def test_the_replay_comes_back_bit_for_bit_and_old_segments_are_not_rewritten(tmp_path: Path) -> None:
    replay, stream = make_replay(), np.random.Generator(np.random.PCG64(1))
    written: list[int] = []
    for step in range(4):
        collect(replay, 2000, stream)
        checkpoints = Checkpoints(tmp_path)
        before = set(checkpoints.objects.list())
        saved = checkpoints.save(NewCheckpoint(step, {"step": step}, replay.snapshot()))
        written.append(sum(r.size for r in saved.below("replay/").values() if r.hash not in before))
    assert max(written) < 2 * min(written)
    recovery = Checkpoints(tmp_path).newest_good()
    assert recovery.checkpoint is not None
    manifest = recovery.checkpoint.manifest
    assert manifest.replay is not None
    restored = Replay.restore(manifest.replay, recovery.checkpoint.objects.read)
    for _ in range(10):
        assert fingerprint(samples(restored)) == fingerprint(samples(replay))


def test_saving_beside_training_stores_the_moment_of_the_snapshot(tmp_path: Path) -> None:
    replay, stream = make_replay(), np.random.Generator(np.random.PCG64(2))
    checkpoints = Checkpoints(tmp_path)
    weights = np.zeros(100_000)
    expected: dict[str, Any] = {}
    with BackgroundSaver[Manifest]() as saver:
        for step in range(12):
            collect(replay, 1000, stream)
            weights += 1.0
            new = NewCheckpoint(step, freeze({"weights": weights}), replay.snapshot())
            saver.submit(partial(checkpoints.save, new))
            if step == 10:
                saver.wait()
                checkpoint = Checkpoints(tmp_path).load("latest")
                assert checkpoint.manifest.replay is not None
                copy = Replay.restore(checkpoint.manifest.replay, checkpoint.objects.read)
                expected = samples(copy)
                assert fingerprint(samples(replay)) == fingerprint(expected)
    for name, value in (("previous", 11.0), ("latest", 12.0)):
        assert (Checkpoints(tmp_path).load(name).state()["weights"] == value).all()
    previous = Checkpoints(tmp_path).load("previous")
    assert previous.manifest.replay is not None
    again = Replay.restore(previous.manifest.replay, previous.objects.read)
    assert fingerprint(samples(again)) == fingerprint(expected)
