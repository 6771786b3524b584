"""Other libraries' algorithms and samplers, on our store."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import DDPG, SAC
from stable_baselines3.common.env_util import make_vec_env
from torchrl.data.replay_buffers.samplers import RandomSampler, SamplerWithoutReplacement

from eigen2.replay import Replay, Schema
from eigen2.replay.sb3 import StoredReplayBuffer


class DictPendulum(gym.ObservationWrapper):
    def __init__(self) -> None:
        super().__init__(gym.make("Pendulum-v1"))
        box = self.env.observation_space
        self.observation_space = gym.spaces.Dict(
            {"angle": gym.spaces.Box(-1, 1, (2,)), "speed": gym.spaces.Box(-8, 8)}
        )
        assert box.shape == (3,)

    def observation(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        return {"angle": observation[:2], "speed": observation[2:]}


def test_ddpg_trains_on_the_store_and_sees_what_it_added() -> None:
    env = make_vec_env("Pendulum-v1", n_envs=2, seed=0)
    options = {"seed": 3}
    model = DDPG(
        "MlpPolicy", env, replay_buffer_class=StoredReplayBuffer, replay_buffer_kwargs=options, buffer_size=300,
        learning_starts=100, policy_kwargs={"net_arch": [16]}, seed=0, device="cpu",
    )  # fmt: skip
    before = [p.detach().clone() for p in model.actor.parameters()]
    model.learn(600)
    buffer = model.replay_buffer
    assert isinstance(buffer, StoredReplayBuffer)
    assert buffer.size() == 300
    assert any(not torch.equal(a, b) for a, b in zip(before, model.actor.parameters(), strict=True))
    batch = buffer.replay.transitions(np.arange(300, 600))
    assert batch.step["truncated"].sum() == 2
    assert not batch.step["terminated"].any()
    sample = buffer.sample(64)
    assert isinstance(sample.observations, torch.Tensor)
    assert sample.observations.shape == (64, 3)
    assert sample.dones.sum() == 0


def test_sac_trains_on_dict_observations() -> None:
    model = SAC(
        "MultiInputPolicy", DictPendulum(), replay_buffer_class=StoredReplayBuffer, buffer_size=500,
        learning_starts=20, policy_kwargs={"net_arch": [16]}, seed=0, device="cpu",
    )  # fmt: skip
    model.learn(40)
    assert model.replay_buffer is not None
    # SB3 says that a buffer gives tensors; one for dictionaries gives dictionaries.
    seen: Any = model.replay_buffer.sample(5).observations
    assert {name: tensor.shape[1:] for name, tensor in seen.items()} == {
        "angle": (2,),
        "speed": (1,),
    }


def test_next_observations_seen_by_sb3_are_the_environments_own() -> None:
    space, action = gym.spaces.Box(-9, 9, (2,)), gym.spaces.Box(-1, 1, (1,))
    buffer = StoredReplayBuffer(50, space, action, n_envs=1, device="cpu")
    rng = np.random.default_rng(0)
    chain = rng.normal(size=(21, 1, 2)).astype(np.float32)
    for t in range(20):
        end = np.array([t == 9])
        info = {"TimeLimit.truncated": t == 9}
        buffer.add(chain[t], chain[t + 1], rng.normal(size=(1, 1)), np.array([t]), end, [info])
    sample = buffer.sample(200)
    steps = sample.rewards[:, 0].long()
    assert isinstance(sample.next_observations, torch.Tensor)
    assert torch.equal(sample.next_observations, torch.from_numpy(chain[:, 0])[steps + 1])
    assert set(steps.tolist()) == set(range(20))


def test_a_reset_buffer_is_as_empty_and_as_uncompressed_as_a_new_one() -> None:
    space, action = gym.spaces.Box(-1, 1, (3,)), gym.spaces.Box(-1, 1, (1,))
    buffer = StoredReplayBuffer(50, space, action, compress=False)
    buffer.reset()
    assert (buffer.size(), buffer.replay.compress) == (0, False)


def test_a_replay_of_another_environment_is_refused() -> None:
    space, action = gym.spaces.Box(-9, 9, (2,)), gym.spaces.Box(-1, 1, (1,))
    other = StoredReplayBuffer(50, gym.spaces.Box(-9, 9, (3,)), action).replay
    with pytest.raises(ValueError, match="schema"):
        StoredReplayBuffer(50, space, action, replay=other)


@pytest.mark.parametrize("sampler", [RandomSampler, SamplerWithoutReplacement])
def test_torchrl_samplers_read_the_store(small_schema: Schema, source: Any, sampler: Any) -> None:
    replay, play = Replay(small_schema, 200, seed=1), source(small_schema, 4, 0)
    for _ in range(6):
        replay.extend_transitions(*play.steps(13))
    buffer = replay.to_torchrl(batch_size=32, sampler=sampler())
    assert len(buffer) == 200
    for _ in range(10):
        batch = buffer.sample()
        index = torch.as_tensor(batch["index"]).reshape(-1)
        own = replay.transitions(replay.links.first + index.numpy())
        assert torch.equal(batch["obs"], own.observation["obs"])
        assert torch.equal(batch["next", "obs"], own.next_observation["obs"])
        assert torch.equal(batch["next", "reward"][:, 0], own.step["reward"])
        assert torch.equal(batch["next", "terminated"][:, 0], own.step["terminated"])


def test_a_torchrl_item_is_one_transition(small_schema: Schema, source: Any) -> None:
    replay = Replay(small_schema, 200, seed=1)
    replay.extend_transitions(*source(small_schema, 4, 0).steps(3))
    buffer = replay.to_torchrl(batch_size=2)
    assert buffer[5]["obs"].shape == (5,)
    assert buffer[2:6]["action"].shape == (4, 2)
