"""SB3 behind the contract: one `learn` per step that resets nothing does exactly what one long `learn` does."""

import math
from copy import deepcopy
from typing import Any

import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv

from eigen2 import seeds
from eigen2.algorithms.construct import construct
from eigen2.algorithms.contract import Metrics, Services
from eigen2.algorithms.global_generators import lent
from eigen2.algorithms.vector import VectorTrainer
from eigen2.config import Config
from eigen2.errors import DamagedStateError
from eigen2.evaluation.panels import REFERENCES, Lines
from eigen2.evaluation.problem import Policy, Problem
from eigen2.nets.device import pick_device
from eigen2.nets.held import held_bytes
from eigen2.replay import Replay
from eigen2.replay.sb3 import StoredReplayBuffer


def make_model(config: Config, problem: Problem) -> Any:
    env: Any = problem.env
    alg: Any = config.alg
    kind, settings = getattr(stable_baselines3, alg.algorithm.upper()), deepcopy(alg.settings)
    ours = {
        "policy": "MlpPolicy",
        "env": DummyVecEnv([lambda: env]),
        "device": pick_device(config.device),
        "seed": seeds.integer(config.seed, "sb3") % 2**31,
        "verbose": 0,
        "tensorboard_log": None,
        "_init_setup_model": True,
    }
    if alg.algorithm == "ppo":
        return construct(kind, settings, ours, "alg.settings")
    stored = {
        "seed": seeds.integer(config.seed, "replay"),
        "compress": config.replay.compress,
        "rows": problem.observation_rows,
    }
    ours |= {"replay_buffer_class": StoredReplayBuffer, "replay_buffer_kwargs": stored, "n_steps": 1}
    ours |= {"buffer_size": config.replay.capacity, "optimize_memory_usage": False}
    if settings.get("action_noise") is not None:
        deviation = np.full(env.action_space.shape, settings["action_noise"])
        settings["action_noise"] = NormalActionNoise(np.zeros_like(deviation), deviation)
    return construct(kind, settings, ours, "alg.settings")


class SB3Trainer(VectorTrainer):
    step_name = "round"
    phases, headline = ("learn", "evaluate"), ("train_return", "eval_return")
    panels = (Lines("Return", ("eval_return", "train_return"), levels=REFERENCES),)
    filling = ("replay", "trial_ledger")
    steps, taken, best_score = 0, 0, -math.inf

    def __init__(self, config: Config, problem: Problem, services: Services) -> None:
        alg: Any = config.alg
        self.config, self.problem, self.services = alg, problem, services
        self.generators: list[Any] = []
        torch.set_num_threads(config.threads)
        with lent(self.generators):
            self.model = make_model(config, problem)
        stored = getattr(self.model, "replay_buffer", None)
        self.replay = stored and stored.replay
        self.size = alg.steps_per_round if stored else self.model.n_steps
        self.steps = math.ceil(alg.env_steps / self.size)
        self.best: dict[str, torch.Tensor] = {}

    @property
    def done(self) -> bool:
        return self.taken >= self.steps

    def step(self) -> Metrics:
        self.taken += 1
        self.services.progress("learn", 0, self.size)
        self.model.set_logger(Logger(None, []))  # Otherwise every `learn` makes a directory.
        missing = max(0, self.taken * self.size - self.model.num_timesteps)
        try:
            with lent(self.generators):
                self.model.learn(missing, self._report, log_interval=None, reset_num_timesteps=False)
        finally:  # What is not finite may have stopped SB3 already, with another message.
            for name, weight in self.model.policy.named_parameters():
                if not weight.isfinite().all():
                    raise DamagedStateError(f"SB3's {name} is not finite after step {self.taken} of the run.")
        recorded = self.model.logger.name_to_value.items()
        metrics = {name.removeprefix("train/"): float(v) for name, v in recorded if math.isfinite(v)}
        metrics["env_steps"] = float(self.model.num_timesteps)
        if self.problem.returns:
            metrics["train_return"] = float(np.mean(self.problem.returns))
        if self.taken % self.config.evaluate_every == 0:
            self.services.progress("evaluate", 0, 1)
            metrics["eval_return"] = self.problem.score(
                greedy(self.model.policy), self.config.evaluate_episodes
            )
            if metrics["eval_return"] > self.best_score:
                self.best_score = metrics["eval_return"]
                self.best = deepcopy(self.model.policy.state_dict())
        return metrics

    def _report(self, *_: Any) -> bool:
        self.services.progress("learn", self.model.num_timesteps % self.size, self.size)
        return True

    def best_weights(self) -> dict[str, torch.Tensor]:
        return self.best or deepcopy(self.model.policy.state_dict())

    def best_policy(self) -> Policy:
        present = self.model.policy
        with lent([]):
            best = type(present)(**present._get_constructor_parameters()).to(self.model.device)
        best.load_state_dict(self.best_weights())
        return greedy(best)

    def use_replay(self, replay: Replay) -> None:
        self.replay = self.model.replay_buffer.replay = replay

    def owners(self) -> dict[str, int]:
        parameters = self.model.get_parameters()
        weights = parameters.pop("policy")
        rollout = vars(getattr(self.model, "rollout_buffer", None) or object)
        held = {"networks": weights, "optimiser": parameters, "best": self.best, "rollouts": rollout}
        return super().owners() | self.problem.owners() | {name: held_bytes(held[name]) for name in held}

    def state_dict(self) -> dict[str, Any]:
        names = ["num_timesteps", "_n_updates", "_episode_num", "_last_obs", "_last_episode_starts"]
        names += self.model._get_torch_save_params()[1]  # SAC's entropy coefficient.
        return {
            "parameters": self.model.get_parameters(),
            "kept": {name: getattr(self.model, name) for name in names},
            "progress": [self.taken, self.best_score, self.best],
            "generators": self.generators,
            "problem": self.problem.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.set_parameters(state["parameters"])
        for name, value in state["kept"].items():
            if isinstance(value, torch.Tensor):  # In place: an optimiser holds it.
                getattr(self.model, name).data.copy_(value)
            else:
                setattr(self.model, name, value)
        self.taken, self.best_score, self.best = state["progress"]
        self.generators = list(state["generators"])
        self.problem.load_state_dict(state["problem"])


def greedy(policy: Any) -> Policy:
    return lambda observation: policy.predict(observation, deterministic=True)[0]
