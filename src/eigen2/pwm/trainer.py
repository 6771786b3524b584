"""PWM's outer loop: collect, fit the world model, improve the policy inside it.

One step is one iteration. Every random draw of iteration i comes from a stream named by i, so the saved state holds
no generator but the replay's own.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigen2 import seeds
from eigen2.envs.control.environments import Task
from eigen2.envs.control.reference_policies import Returns, play
from eigen2.errors import DataError
from eigen2.pwm.agent import Agent, policy_weights
from eigen2.pwm.best import Best, bearable
from eigen2.pwm.collector import Act, Collector, schema_of
from eigen2.pwm.config import PWMConfig
from eigen2.pwm.optimiser import Optimiser, falling_rate
from eigen2.pwm.policy_learning import Metrics, PolicyLearner
from eigen2.pwm.sequences import SequenceBatch, cut_sequences, whole_sequences
from eigen2.replay.buffer import Replay
from eigen2.replay.schema import described


class PWMTrainer:
    """`step()` until `done`; `state_dict` with the replay's own snapshot is everything needed to go on exactly."""

    def __init__(
        self,
        config: PWMConfig,
        task: Task,
        seed: int,
        capacity: int,
        device: str = "cpu",
        threads: int = 1,
        compress: bool = True,
    ) -> None:
        self.config, self.task, self.seed = config, task, seed
        self.capacity, self.compress = capacity, compress
        self.device = torch.device(device)
        self.threads = threads
        self.agent = Agent(config, task.observation_size, task.action_size, seed, self.device)
        self.replay = self._empty_replay()
        self.collector = Collector(task, task.open(config.environments, seed, "start", threads), self.replay)
        self.optimiser = Optimiser("model", self.agent.model, config.model.learning_rate, config.model.clip)
        self.learner = PolicyLearner(config, self.agent)
        self.iteration = 0
        self.pretrained = 0
        """Gradient steps of pretraining done."""
        self.best = Best()

    @property
    def done(self) -> bool:
        return self.iteration >= self.config.iterations

    @property
    def steps(self) -> int:
        return self.config.pretrain_steps + self.config.iterations

    @property
    def best_score(self) -> float:
        return self.best.score

    def best_weights(self) -> dict[str, Tensor]:
        """Encoder, actor and observation statistics of the best evaluation, or as they are before the first."""
        return policy_weights(self.best.weights or self._weights())

    def take_records(self) -> dict[str, list[dict[str, Any]]]:
        return {}

    def step(self) -> Metrics:
        """One iteration, or a part of pretraining.

        -> metrics; `eval_*` are there when the agent was evaluated in the real environment, and `went_back_to`
        when that made it go on from the weights of an earlier iteration.
        """
        if self.pretrained < self.config.pretrain_updates:
            return self._pretrain()
        self.collect()
        metrics = self.train_model() | self.train_policy()
        self.iteration += 1
        if self.done or self.iteration % self.config.evaluate_every == 0:
            metrics |= self._judge()
        if self.best.weights:
            metrics["champion"] = self.best.score
        return metrics | {
            "env_steps": float(self.collector.steps),
            "train_return": self.collector.recent_return,
            "simulation_faults": float(self.collector.environments.faults),
        }

    def collect(self) -> None:
        """Random steps before the first iteration, then `steps` steps of the exploring policy."""
        if self.iteration == 0:
            self.collector.run(self._act_randomly(), self.config.random_steps)
        self.collector.run(self._explore(), self.config.steps)

    def begin(self, source: Replay) -> None:
        """Pretrain from another replay of the same task: until that is done it takes the place of the own one."""
        mine, theirs = schema_of(self.task), source.schema
        if mine != theirs:
            raise DataError(
                f"the replay to pretrain from holds {described(theirs)}, {self.task.name} needs {described(mine)}; "
                "name a run of the same task"
            )
        self.collector.learn_statistics(source)
        self.use_replay(source)

    def _pretrain(self) -> Metrics:
        updates = min(self.config.model.updates, self.config.pretrain_updates - self.pretrained)
        metrics = self._fit_model(updates, "pretrain", self.pretrained)
        self.pretrained += updates
        if self.pretrained == self.config.pretrain_updates:
            self.use_replay(self._empty_replay())
        return metrics | {"pretrained": float(self.pretrained)}

    def train_model(self) -> Metrics:
        updates = self.config.model.updates + (
            self.config.model.bootstrap_updates if self.iteration == 0 else 0
        )
        return self._fit_model(updates, "sequences", self.iteration)

    def _fit_model(self, updates: int, purpose: str, index: int) -> Metrics:
        config, replay, newest = self.config, self.replay, self.config.newest
        starts = seeds.generator(self.seed, purpose, index)
        times = seeds.torch_generator(self.seed, f"{purpose} flow time", index)
        for _ in range(updates):
            if config.model.sequences == "whole":
                batch = whole_sequences(replay, config.model.batch, config.horizon, newest)
            else:
                batch = cut_sequences(replay, config.model.batch, config.horizon, newest, starts)
            loss = self.agent.model.loss(self._prepared(batch), config.gamma, times)
            norm = self.optimiser.step(loss.total, self._share)
        return loss.metrics() | {"model_gradient": norm}

    def train_policy(self) -> Metrics:
        """`actor.updates` times: imagine from replay states, one actor step, TD(lambda) steps of the critics."""
        config = self.config
        noise_stream = seeds.torch_generator(self.seed, "imagine", self.iteration)
        order_stream = seeds.torch_generator(self.seed, "minibatches", self.iteration)
        shape = (config.horizon, config.actor.batch, self.task.action_size)
        metrics: Metrics = {}
        for _ in range(config.actor.updates):
            batch = self.replay.sample(config.actor.batch, newest=config.newest)
            with torch.no_grad():
                start = self.agent.model.encode(self._normalise(batch.observation["obs"]))
            noise = torch.randn(shape, generator=noise_stream).to(self.device)
            metrics = self.learner.improve(self.agent.model, start, noise, order_stream, self._share)
        return metrics

    def evaluate(self, episodes: int, purpose: str = "evaluate") -> Returns:
        """Closed loop, real rewards, no noise; the same start states at every call of one purpose."""
        return play(
            self.task,
            self.agent.greedy(self.collector.observations),
            episodes,
            self.seed,
            purpose,
            self.threads,
        )

    def _judge(self) -> Metrics:
        """Evaluates; a policy that fell too far below the best one is given up for it."""
        result = self.evaluate(self.config.evaluate_episodes)
        metrics = {
            "eval_return": result.mean,
            "eval_std": result.std,
            "eval_length": float(result.lengths.mean()),
        }
        if self.best.judge(
            result.mean, self.iteration, self._weights, bearable(self._share, self.config.go_back)
        ):
            self.agent.go_back(self.best.weights["agent"])
            self.collector.observations.load_state_dict(self.best.weights["observations"])
            metrics["went_back_to"] = float(self.best.iteration)
        return metrics

    def state_dict(self) -> dict[str, Any]:
        return {
            "iteration": self.iteration,
            "pretrained": self.pretrained,
            "agent": self.agent.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "learner": self.learner.state_dict(),
            "collector": self.collector.state_dict(),
            "best": self.best.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.iteration = int(state["iteration"])
        self.pretrained = int(state["pretrained"])
        self.agent.load_state_dict(state["agent"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.learner.load_state_dict(state["learner"])
        self.collector.load_state_dict(state["collector"])
        self.best.load_state_dict(state["best"])

    def use_replay(self, replay: Replay) -> None:
        """Goes on with a restored replay, whose sampling streams are part of its own snapshot."""
        self.replay = self.collector.replay = replay

    def _empty_replay(self) -> Replay:
        seed = seeds.integer(self.seed, "replay")
        return Replay(schema_of(self.task), self.capacity, seed, compress=self.compress)

    def _weights(self) -> dict[str, Any]:
        """Copies of all the networks and of what they are fed with."""
        return {
            "agent": self.agent.state_dict(),
            "observations": self.collector.observations.state_dict(),
        }

    @property
    def _share(self) -> float:
        return falling_rate(self.iteration, self.config.iterations, self.config.final_rate)

    def _normalise(self, observation: Tensor) -> Tensor:
        return self.agent.normalise(observation, self.collector.observations)

    def _prepared(self, batch: SequenceBatch) -> SequenceBatch:
        """On the device, observations normalised, rewards over their running deviation."""
        scale = 1.0 / float(self.collector.rewards.deviation[0])
        return SequenceBatch(
            self._normalise(batch.observation),
            batch.action.to(self.device),
            batch.reward.to(self.device) * scale,
            batch.terminated.to(self.device),
            batch.valid.to(self.device),
        )

    def _act_randomly(self) -> Act:
        stream = seeds.generator(self.seed, "random steps")

        def act(observation: NDArray[np.float32], fresh: NDArray[np.bool_]) -> NDArray[np.float32]:
            return stream.uniform(-1.0, 1.0, (len(observation), self.task.action_size)).astype(np.float32)

        return act

    def _explore(self) -> Act:
        stream = seeds.torch_generator(self.seed, "explore", self.iteration)
        model, actor = self.agent.model, self.agent.actor
        closed = self.config.collect == "closed_loop"
        imagined: list[Tensor] = []

        @torch.no_grad()
        def act(observation: NDArray[np.float32], fresh: NDArray[np.bool_]) -> NDArray[np.float32]:
            latent = model.encode(self._normalise(torch.from_numpy(observation)))
            if not closed and imagined:
                latent = torch.where(torch.from_numpy(fresh)[:, None].to(self.device), latent, imagined.pop())
            noise = torch.randn((len(observation), self.task.action_size), generator=stream).to(self.device)
            action = actor(latent, noise)
            if not closed:
                imagined.append(model.step(latent, action))
            result: NDArray[np.float32] = action.cpu().numpy()
            return result

        return act
