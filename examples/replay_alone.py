"""The replay without the rest: fill it, sample from it, save it, restore it; the next samples are the same bits."""

import tempfile
from pathlib import Path

import gymnasium
import numpy as np
import torch

from eigen2.replay import Replay, schema_from_spaces
from eigen2.store.objects import Objects


def fill(replay: Replay, envs: gymnasium.vector.VectorEnv, steps: int) -> None:
    """Random actions in parallel environments; every array is [stream, ...]. Where episodes end inside, `extend` takes `final`."""
    observation, _ = envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(steps):
        action = envs.action_space.sample()
        following, reward, terminated, truncated, _ = envs.step(action)
        step = {"obs": observation, "action": action, "reward": reward.astype(np.float32)}
        step |= {"terminated": terminated, "truncated": truncated}
        # One row of time at a time: [1, stream, ...].
        replay.extend({name: value[None] for name, value in step.items()}, after={"obs": following})
        observation = following


def main() -> None:
    envs = gymnasium.make_vec("Pendulum-v1", num_envs=4)
    schema = schema_from_spaces(envs.single_observation_space, envs.single_action_space)
    replay = Replay(schema, capacity=10_000, seed=0)
    fill(replay, envs, steps=150)

    batch = replay.sample(64, n_step=3, gamma=0.99)
    print("transitions", len(replay), "| 3-step rewards", tuple(batch.step["reward"].shape))
    sequences = replay.sample_sequences(16, horizon=8)
    print("sequences", tuple(sequences.observation["obs"].shape))

    with tempfile.TemporaryDirectory() as directory:
        objects = Objects(Path(directory))
        manifest = replay.snapshot().write(
            put=lambda data: objects.put(data).hash, has=lambda name: objects.find(name) is not None
        )
        restored = Replay.restore(manifest, read=objects.read)
    ours, theirs = replay.sample(64).clone(), restored.sample(64).clone()
    assert torch.equal(ours.observation["obs"], theirs.observation["obs"])
    print("restored: the next sample is identical;", replay.info())


if __name__ == "__main__":
    main()
