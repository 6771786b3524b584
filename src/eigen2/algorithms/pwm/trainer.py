"""PWM's outer loop: collect, fit the world model, improve the policy inside it.

One step is one iteration. Every random draw of iteration i comes from a stream named by i, so the saved state holds
no generator but the replay's own.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigen2 import seeds
from eigen2.algorithms.contract import Metrics, Progress, Trainer, no_progress
from eigen2.algorithms.pwm.agent import Agent, policy_weights, restored
from eigen2.algorithms.pwm.best import Best
from eigen2.algorithms.pwm.collector import Collector, ExplorationPolicy, Report, schema_of
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.model_learning import fit_model
from eigen2.algorithms.pwm.optimiser import Optimiser, linear_lr_scale
from eigen2.algorithms.pwm.policy_learning import PolicyLearner
from eigen2.algorithms.pwm.sequences import SequenceBatch, whole_sequences
from eigen2.algorithms.pwm.upgrade import upgrade
from eigen2.envs.control.environments import Task
from eigen2.envs.control.rollout import ControlRollout, Policy, play_episodes
from eigen2.errors import DataError
from eigen2.evaluation.panels import REFERENCES, Against, Lines
from eigen2.nets.held import held_bytes
from eigen2.nets.micro_batches import MicroBatches
from eigen2.replay.buffer import Replay
from eigen2.replay.schema import described


class PWMTrainer(Trainer):
    """`state_dict` with the replay's own snapshot is everything needed to continue exactly."""

    step_name = "iteration"
    headline = ("model_loss", "train_return", "eval_return")
    panels = (
        Lines("Return", ("eval_return", "train_return"), levels=REFERENCES),
        Lines("Imagined return", ("imagined_return", "value")),
        Against(
            "Imagined against real return",
            "imagined_return",
            "eval_return",
            note="Imagined returns are discounted, and in units of the reward's running deviation.",
        ),
        Lines(
            "Losses of the world model",
            ("model_loss", "latent_loss", "reward_loss", "reconstruction_loss", "termination_loss"),
        ),
        Lines("Gradient norms", ("model_gradient", "actor_gradient", "critic_gradient")),
    )
    replay: Replay

    def __init__(
        self,
        config: PWMConfig,
        task: Task,
        seed: int,
        capacity: int,
        device: str = "cpu",
        compress: bool = True,
        progress: Progress = no_progress,
    ) -> None:
        self.config, self.task, self.seed = config, task, seed
        self.capacity, self.compress = capacity, compress
        self.device = torch.device(device)
        self._progress = progress
        pretraining = ("pretrain",) if config.pretrain_updates else ()
        self.phases = (*pretraining, "collect", "model", "policy", "evaluate")
        self.agent = Agent(config, task.observation_size, task.action_size, seed, self.device)
        self.replay = self._empty_replay()
        self.collector = Collector(task, task.open(config.environments, seed, "start"), self.replay)
        self.optimiser = Optimiser("model", self.agent.model, config.model.learning_rate, config.model.clip)
        self.micro_batches = MicroBatches()
        self.learner = PolicyLearner(config, self.agent, self.micro_batches)
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
        return {"events": self.micro_batches.take_news()}

    def owners(self) -> dict[str, int]:
        return {
            **self.agent.owners(),
            "optimisers": self.optimiser.nbytes + self.learner.nbytes,
            "best": held_bytes(self.best.weights),
            **super().owners(),
        }

    def step(self) -> Metrics:
        """One iteration, or a part of pretraining.

        -> metrics; `train_return` is there once an episode has ended, `eval_*` when the agent was evaluated in the real
        environment.
        """
        if self.pretrained < self.config.pretrain_updates:
            return self._pretrain()
        self.collect()
        metrics = self.train_model() | self.train_policy()
        self.iteration += 1
        if self.done or self.iteration % self.config.evaluate_every == 0:
            metrics |= self._evaluate()
        if self.collector.recent_return is not None:
            metrics["train_return"] = self.collector.recent_return
        return metrics | {
            "env_steps": float(self.collector.steps),
            "simulation_faults": float(self.collector.environments.faults),
        }

    def collect(self) -> None:
        """Random steps before the first iteration, then `steps` steps of the exploring policy."""
        report = partial(self._progress, "collect")
        report(0, self.config.steps)
        if self.iteration == 0:
            self.collector.run(self._act_randomly(), self.config.random_steps, report)
        self.collector.run(self._explore(), self.config.steps, report)

    def load_dataset(self, source: Replay) -> None:
        """Pretrain from another replay of the same task: until that is done it takes the place of the own one."""
        mine, theirs = schema_of(self.task), source.schema
        if mine != theirs:
            raise DataError(
                f"the replay to pretrain from holds {described(theirs)}, {self.task.name} needs {described(mine)}; "
                "name a run of the same task"
            )
        source.reseed(seeds.integer(self.seed, "pretrain"))
        source.compress = self.compress
        self.collector.learn_statistics(source)
        self.use_replay(source)

    def _pretrain(self) -> Metrics:
        updates = min(self.config.model.updates, self.config.pretrain_updates - self.pretrained)
        report = partial(self._progress, "pretrain")
        metrics = self._fit_model(updates, "pretrain", self.pretrained, report)
        self.pretrained += updates
        if self.pretrained == self.config.pretrain_updates:
            self.use_replay(self._empty_replay())
        return metrics | {"pretrained": float(self.pretrained)}

    def train_model(self) -> Metrics:
        updates = self.config.model.updates + (
            self.config.model.bootstrap_updates if self.iteration == 0 else 0
        )
        return self._fit_model(updates, "sequences", self.iteration, partial(self._progress, "model"))

    def _fit_model(self, updates: int, purpose: str, index: int, report: Report) -> Metrics:
        config = self.config
        times = seeds.torch_generator(self.seed, f"{purpose} flow time", index)
        report(0, updates)
        for number in range(updates):
            batch = whole_sequences(self.replay, config.model.batch, config.horizon)
            loss, norm = fit_model(
                self.agent.model, self.optimiser, self._prepared(batch), config.gamma, times, self._lr_scale, self.micro_batches
            )  # fmt: skip
            report(number + 1, updates)
        return loss.metrics() | {"model_gradient": norm}

    def train_policy(self) -> Metrics:
        """`actor.updates` times: imagine from replay states, one actor step, TD(lambda) steps of the critics."""
        config = self.config
        noise_stream = seeds.torch_generator(self.seed, "imagine", self.iteration)
        order_stream = seeds.torch_generator(self.seed, "minibatches", self.iteration)
        shape = (config.horizon, config.actor.batch, self.task.action_size)
        metrics: Metrics = {}
        self._progress("policy", 0, config.actor.updates)
        for number in range(config.actor.updates):
            batch = self.replay.sample(config.actor.batch)
            with torch.no_grad():
                start = self.agent.model.encode(self._normalise(batch.observation["obs"]))
            noise = torch.randn(shape, generator=noise_stream).to(self.device)
            metrics = self.learner.improve(self.agent.model, start, noise, order_stream, self._lr_scale)
            self._progress("policy", number + 1, config.actor.updates)
        return metrics

    def evaluate(self, episodes: int, purpose: str = "evaluate") -> ControlRollout:
        """Closed loop, real rewards, no noise; the same start states at every call of one purpose."""
        return play_episodes(self.task, self.policy(), episodes, self.seed, purpose)

    def policy(self) -> Policy:
        """The newest policy, which is evaluated during training."""
        return self.agent.greedy(self.collector.observations)

    def champion(self) -> Policy:
        """The policy of the best evaluation; the newest before the first one."""
        sizes = self.task.observation_size, self.task.action_size
        agent, statistics = restored(self.config, *sizes, self.best_weights(), self.device)
        return agent.greedy(statistics)

    def _evaluate(self) -> Metrics:
        episodes = self.config.evaluate_episodes
        self._progress("evaluate", 0, episodes)
        result = self.evaluate(episodes)
        self._progress("evaluate", episodes, episodes)
        self.best.record(result.mean, self.iteration, self._weights)
        return {
            "eval_return": result.mean,
            "eval_std": float(result.returns.std()),
            "eval_length": float(result.lengths.mean()),
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "iteration": self.iteration,
            "pretrained": self.pretrained,
            "agent": self.agent.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "learner": self.learner.state_dict(),
            "collector": self.collector.state_dict(),
            "best": self.best.state_dict(),
            "parts": self.micro_batches.parts,
        }

    def upgraded(self, state: dict[str, Any]) -> dict[str, Any]:
        return upgrade(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        state = self.upgraded(state)
        self.iteration = int(state["iteration"])
        self.pretrained = int(state["pretrained"])
        self.agent.load_state_dict(state["agent"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.learner.load_state_dict(state["learner"])
        self.collector.load_state_dict(state["collector"])
        self.best.load_state_dict(state["best"])
        self.micro_batches.parts = int(state["parts"])

    def use_replay(self, replay: Replay) -> None:
        """Continues with a restored replay, whose sampling streams are part of its own snapshot."""
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
    def _lr_scale(self) -> float:
        return linear_lr_scale(self.iteration, self.config.iterations, self.config.final_lr_scale)

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
        )

    def _act_randomly(self) -> ExplorationPolicy:
        stream = seeds.generator(self.seed, "random steps")

        def act(observation: NDArray[np.float32]) -> NDArray[np.float32]:
            return stream.uniform(-1.0, 1.0, (len(observation), self.task.action_size)).astype(np.float32)

        return act

    def _explore(self) -> ExplorationPolicy:
        stream = seeds.torch_generator(self.seed, "explore", self.iteration)
        model, actor = self.agent.model, self.agent.actor

        @torch.no_grad()
        def act(observation: NDArray[np.float32]) -> NDArray[np.float32]:
            latent = model.encode(self._normalise(torch.from_numpy(observation)))
            noise = torch.randn((len(observation), self.task.action_size), generator=stream).to(self.device)
            action: NDArray[np.float32] = actor(latent, noise).cpu().numpy()
            return action

        return act
