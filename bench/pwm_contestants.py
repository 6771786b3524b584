"""One learner on one control task for a given CPU time; prints its learning curve as one JSON line.

    python bench/pwm_contestants.py --learner pwm_mlp --task dflex_hopper --seed 0 --budget 360

Learners: pwm_mlp, pwm_flow, sac, td3 (Stable-Baselines3 with its defaults and eight environments). All act on the
same simulator and are evaluated the same way: no noise, real rewards, whole episodes from common start states. The
clock is this process's CPU time on one thread without the measured evaluations.
"""

import argparse
import json
import sys
import time
from typing import Any

import numpy as np
import torch
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.trainer import PWMTrainer
from eigen2.config import load_config
from eigen2.envs.config import GymConfig
from eigen2.envs.control.catalogue import control_task, make_task
from eigen2.envs.control.environments import Task
from eigen2.envs.control.rollout import Policy, play_episodes

EVALUATIONS = 24
EPISODES = 20
PRESETS = {"pwm_mlp": "pwm_small", "pwm_flow": "pwm_small_flow"}


def task_named(name: str) -> Task:
    """One of our own, or a Gymnasium environment."""
    return make_task(name) if name.startswith("dflex") else control_task(GymConfig(id=name))


class Clock:
    """CPU seconds of learning, the moments to evaluate at, and the curve so far."""

    def __init__(self, task: Task, budget: float, seed: int) -> None:
        self.task, self.budget, self.seed = task, budget, seed
        self.curve: list[tuple[float, float]] = []
        self.champion: float | None = None
        """What the networks that a learner keeps as its best earn at the end; SAC and TD3 here keep none."""
        self._measured = 0.0
        self._start = time.process_time()

    @property
    def seconds(self) -> float:
        return time.process_time() - self._start - self._measured

    @property
    def due(self) -> bool:
        return self.seconds >= self.budget * (len(self.curve) + 1) / EVALUATIONS

    def evaluate(self, policy: Policy) -> None:
        at, before = self.seconds, time.process_time()
        score = play_episodes(self.task, policy, EPISODES, self.seed, "benchmark").mean
        self.curve.append((at, score))
        self._measured += time.process_time() - before
        print(f"{at:.0f} of {self.budget:.0f} CPU s: {score:.0f}", file=sys.stderr, flush=True)


class SimulatorForSB3(VecEnv):
    """Our batch of environments behind Stable-Baselines3's interface."""

    def __init__(self, task: Task, count: int, seed: int) -> None:
        import gymnasium as gym

        self.batch = task.open(count, seed, "start")
        observation = gym.spaces.Box(-np.inf, np.inf, (task.observation_size,), np.float32)
        super().__init__(count, observation, gym.spaces.Box(-1.0, 1.0, (task.action_size,), np.float32))
        self._actions = np.zeros((count, task.action_size), np.float32)

    def reset(self) -> Any:
        return self.batch.observation

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        step = self.batch.step(self._actions)
        done = step.terminated | step.truncated
        infos: list[dict[str, Any]] = [{} for _ in done]
        for i in np.flatnonzero(done):
            infos[i] = {
                "terminal_observation": step.successor[i],
                "TimeLimit.truncated": bool(step.truncated[i]),
            }
        return step.observation, step.reward, done, infos

    def close(self) -> None:
        """Nothing is held open."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


class StopAtBudget(BaseCallback):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def _on_step(self) -> bool:
        if self.clock.due:
            self.clock.evaluate(lambda observation: self.model.predict(observation, deterministic=True)[0])
        return self.clock.seconds < self.clock.budget


def run_sb3(kind: type[SAC] | type[TD3], task: Task, seed: int, budget: float) -> Clock:
    model = kind("MlpPolicy", SimulatorForSB3(task, 8, seed), seed=seed, device="cpu", learning_starts=1000)
    clock = Clock(task, budget, seed)
    model.learn(10**9, callback=StopAtBudget(clock))
    clock.evaluate(lambda observation: model.predict(observation, deterministic=True)[0])
    return clock


def run_pwm(preset: str, task: Task, seed: int, budget: float) -> Clock:
    """The schedule needs the number of iterations: how many will fit is estimated anew at every measurement.

    The trainer's own evaluations, by which it keeps its best networks, are learning and count.
    """
    own = task.name.startswith("dflex")
    config = load_config(
        [f"alg={preset}", *([f"env={task.name}"] if own else ["env=gym", f"env.id={task.name}"])]
    )
    assert isinstance(config.alg, PWMConfig)
    trainer = PWMTrainer(config.alg, task, seed, config.replay.capacity)
    clock = Clock(task, budget, seed)
    trainer.step()
    opening = clock.seconds
    while not trainer.done:
        trainer.step()
        if clock.due and not trainer.done:
            clock.evaluate(trainer.policy())
            each = (clock.seconds - opening) / (trainer.iteration - 1)
            iterations = trainer.iteration + max(1, int((budget - clock.seconds) / each))
            trainer.config = trainer.config.model_copy(update={"iterations": iterations})
    clock.evaluate(trainer.policy())
    clock.champion = play_episodes(task, trainer.champion(), EPISODES, seed, "benchmark").mean
    return clock


def main() -> None:
    parser = argparse.ArgumentParser(description="One learner on one control task for a given CPU time.")
    parser.add_argument("--learner", choices=["pwm_mlp", "pwm_flow", "sac", "td3"], required=True)
    parser.add_argument("--task", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--budget", type=float, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    task = task_named(arguments.task)
    if arguments.learner in PRESETS:
        clock = run_pwm(PRESETS[arguments.learner], task, arguments.seed, arguments.budget)
    else:
        clock = run_sb3(SAC if arguments.learner == "sac" else TD3, task, arguments.seed, arguments.budget)
    found = {"cpu_seconds": clock.seconds, "curve": clock.curve, "champion": clock.champion}
    print(json.dumps({**vars(arguments), **found}))


if __name__ == "__main__":
    main()
