"""Stable-Baselines3 through Eigen2 beside Stable-Baselines3 alone: the same algorithm, settings, seeds and test.

    python bench/sb3.py --algorithm sac --seeds 5 --steps 6000

Both learn Gymnasium's Pendulum-v1 with SB3's defaults on one thread. Eigen2 stores into its own replay, takes its state and
a snapshot of the replay after every 1,000 steps as a run does, and evaluates; that is part of its CPU time. Scores are the
mean return of the last policy over 20 episodes that neither has seen. The last line is one JSON object.
"""

import argparse
import json
import time
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch

from eigen2.algorithms.contract import Services
from eigen2.algorithms.sb3 import SB3, SB3Config
from eigen2.config import Config
from eigen2.envs.config import GymConfig
from eigen2.replay.config import ReplayConfig
from eigen2.store import state as states
from eigen2.store.memory import MemoryObjects

ENV = "Pendulum-v1"
EPISODES = 20


def through_eigen2(algorithm: str, seed: int, steps: int) -> tuple[float, float]:
    alg: Any = SB3Config(algorithm=algorithm, env_steps=steps)
    config = Config(
        seed=seed, device="cpu", alg=alg, env=GymConfig(id=ENV), replay=ReplayConfig(capacity=1_000_000)
    )
    start, objects = time.process_time(), MemoryObjects()
    services: Any = Services(None, states.fingerprint)  # type: ignore[arg-type]
    with SB3().open(config, services) as experiment:
        trainer: Any = experiment.trainer
        while not trainer.done:
            trainer.step()
            states.freeze(trainer.state_dict())
            if trainer.replay is not None:
                trainer.replay.snapshot().write(objects.put, objects.has)
        seconds = time.process_time() - start
        return score(trainer.model, seed, 2.0), seconds


def alone(algorithm: str, seed: int, steps: int) -> tuple[float, float]:
    start = time.process_time()
    model = getattr(stable_baselines3, algorithm.upper())("MlpPolicy", ENV, seed=seed, device="cpu")
    model.learn(steps)
    seconds = time.process_time() - start
    return score(model, seed, 1.0), seconds


def score(model: Any, seed: int, torque: float) -> float:
    """Mean return without noise; `torque` is what the model's action 1 means."""
    env = gymnasium.make(ENV)
    returns = np.zeros(EPISODES)
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=1_000_000 + 1_000 * seed + episode)
        over = False
        while not over:
            action = model.predict(observation, deterministic=True)[0]
            observation, reward, terminated, truncated, _ = env.step(torque * action)
            returns[episode] += float(reward)
            over = terminated or truncated
    return float(returns.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--algorithm", choices=("sac", "td3", "ppo"), default="sac")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6_000)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, list[tuple[float, float]]] = {"eigen2": [], "alone": []}
    print(
        f"{chosen.algorithm} on {ENV}, {chosen.steps} steps\nseed    eigen2     alone   CPU s eigen2   alone"
    )
    for seed in range(chosen.seeds):
        results["eigen2"].append(through_eigen2(chosen.algorithm, seed, chosen.steps))
        results["alone"].append(alone(chosen.algorithm, seed, chosen.steps))
        (ours, our_seconds), (plain, plain_seconds) = results["eigen2"][-1], results["alone"][-1]
        print(f"{seed:4d}  {ours:8.1f}  {plain:8.1f}  {our_seconds:13.1f}  {plain_seconds:6.1f}", flush=True)
    facts: dict[str, Any] = {
        "algorithm": chosen.algorithm, "env": ENV, "env_steps": chosen.steps, "seeds": chosen.seeds
    }  # fmt: skip
    for name, pairs in results.items():
        scores, seconds = np.array(pairs).T
        facts |= {
            f"{name}_mean": float(scores.mean()),
            f"{name}_std": float(scores.std(ddof=1)) if len(scores) > 1 else 0.0,
            f"{name}_cpu_seconds": float(seconds.mean()),
        }
    spread = max(facts["eigen2_std"], facts["alone_std"])
    facts["within_spread"] = bool(abs(facts["eigen2_mean"] - facts["alone_mean"]) <= spread)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
