"""The market as a Gymnasium environment: a loop of your own, then SAC of Stable-Baselines3.

python examples/trading_environment.py [prices.csv]
"""

import sys

import gymnasium
import numpy as np
from stable_baselines3 import SAC

import eigen2  # noqa: F401  registers eigen2/Trading-v0


def equal_weight(env: gymnasium.Env) -> float:
    """Log growth of one episode at equal weights."""
    env.reset(seed=0)
    total, ended = 0.0, False
    while not ended:
        action = np.ones(env.action_space.shape, np.float32)
        _, reward, terminated, truncated, _ = env.step(action)  # reward: the day's change of log equity
        total, ended = total + float(reward), terminated or truncated
    return total


def main(data: str = "sp20", steps: int = 200) -> None:
    # Options are the settings of env=trading; `eigen2 explain env` lists them.
    env = gymnasium.make("eigen2/Trading-v0", data=data, actions="weights", window=8, split="train")
    print("observation", {name: space.shape for name, space in env.observation_space.items()})
    print("equal weight, one episode:", round(equal_weight(env), 4))
    learner = SAC("MultiInputPolicy", env, learning_starts=50, batch_size=16, buffer_size=1_000, seed=0)
    learner.learn(steps)
    test = gymnasium.make("eigen2/Trading-v0", data=data, actions="weights", window=8, split="validation")
    observation, _ = test.reset(seed=0)
    action, _ = learner.predict(observation, deterministic=True)
    print("SAC's first action on validation days:", np.round(action[:4], 2), "...")


if __name__ == "__main__":
    main(*sys.argv[1:2])
