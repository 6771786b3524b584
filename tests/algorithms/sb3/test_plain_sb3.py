"""Through Eigen2, SB3 learns what it learns alone: the same weights after the same steps, however they are cut."""

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO, SAC, TD3
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv

from eigen2 import seeds
from eigen2.envs.config import GymConfig
from eigen2.evaluation.problem import open_problem
from eigen2.replay.sb3 import StoredReplayBuffer


@pytest.mark.parametrize(("algorithm", "kind"), [("sac", SAC), ("td3", TD3), ("ppo", PPO)])
def test_the_weights_are_those_of_one_long_call(
    algorithm: str, kind: type[SAC | TD3 | PPO], make: Any, small: Any
) -> None:
    trainer = make(algorithm)
    for _ in range(4):
        trainer.step()

    settings = dict(small[algorithm])
    problem = open_problem(GymConfig(id="test/Drift-v0"), 3)
    if algorithm != "ppo":
        options = {"seed": seeds.integer(3, "replay")}
        settings |= {
            "replay_buffer_class": StoredReplayBuffer,
            "replay_buffer_kwargs": options,
            "buffer_size": 150,
        }
    if "action_noise" in settings:
        settings["action_noise"] = NormalActionNoise(np.zeros(1), np.full(1, 0.1))
    env = DummyVecEnv([lambda: problem.env])
    plain = kind("MlpPolicy", env, seed=seeds.integer(3, "sb3") % 2**31, device="cpu", **settings)
    plain.learn(160)

    assert plain.num_timesteps == trainer.model.num_timesteps == 160
    ours, theirs = trainer.model.policy.state_dict(), plain.policy.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
