"""PWM for many tasks from stored experience: one world model of all of them, then a policy for each inside it.

The first `iterations` steps fit the world model to the union of the data. Then the model stays as it is, and each task
in turn gets `multitask.policy_iterations` steps of policy learning in imagination that starts from its own data. No
environment is stepped except to evaluate: every task in its own, closed loop, real rewards.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigen2 import seeds
from eigen2.algorithms.contract import Metrics, Progress, Trainer, no_progress
from eigen2.algorithms.pwm.actor import Actor
from eigen2.algorithms.pwm.agent import Behaviour
from eigen2.algorithms.pwm.best import Best
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.model_learning import Part, fit_model
from eigen2.algorithms.pwm.normaliser import Normaliser
from eigen2.algorithms.pwm.optimiser import Optimiser, linear_lr_scale
from eigen2.algorithms.pwm.policy_learning import PolicyLearner
from eigen2.algorithms.pwm.sequences import SequenceBatch, sequences_from
from eigen2.algorithms.pwm.task_model import TaskView, TaskWorldModel
from eigen2.algorithms.pwm.union import transitions_by_task, union_schema, unite
from eigen2.algorithms.pwm.upgrade import upgrade
from eigen2.envs.control.environments import Task
from eigen2.envs.control.rollout import ControlRollout, Policy, play_episodes
from eigen2.errors import DataError
from eigen2.nets.held import held_bytes
from eigen2.nets.micro_batches import MicroBatches
from eigen2.replay.buffer import Replay


class TaskPolicy:
    """What one task has of its own: statistics of its data, behaviour, learner, and its best evaluation."""

    def __init__(
        self, task: Task, number: int, config: PWMConfig, seed: int, model: TaskWorldModel, micro_batches: MicroBatches
    ) -> None:  # fmt: skip
        self.task = task
        self.observations, self.rewards = Normaliser(model.observations), Normaliser(1)
        own_seed = seeds.integer(seed, "task", number)
        self.behaviour = Behaviour(config, task.action_size, own_seed, model.embedding.device)
        self.learner = PolicyLearner(config, self.behaviour, micro_batches)
        self.view = TaskView(model, number)
        self.best = Best()

    def latent(self, observation: Tensor) -> Tensor:
        """Raw observations of the task [..., o], padded or not -> [..., L]"""
        mean, inverse = self.observations.tensors(self.behaviour.device)
        size = observation.shape[-1]
        normalised = (observation.to(self.behaviour.device) - mean[:size]) * inverse[:size]
        return self.view.encode(normalised.clamp(-10.0, 10.0))

    def champion(self) -> Policy:
        """The actor of the best evaluation; the newest before the first one."""
        actor = copy.deepcopy(self.behaviour.actor)
        if self.best.weights:
            actor.load_state_dict(self.best.weights["actor"])
        return self.greedy(actor)

    def greedy(self, actor: Actor | None = None) -> Policy:
        """An actor, by default the newest, without noise, acting on every real observation."""
        actor = actor or self.behaviour.actor

        @torch.no_grad()
        def act(observation: NDArray[np.float32]) -> NDArray[np.float32]:
            action = actor(self.latent(torch.from_numpy(observation)), None)
            result: NDArray[np.float32] = action.cpu().numpy()
            return result

        return act

    def state_dict(self) -> dict[str, Any]:
        return {
            "observations": self.observations.state_dict(),
            "rewards": self.rewards.state_dict(),
            "behaviour": self.behaviour.state_dict(),
            "learner": self.learner.state_dict(),
            "best": self.best.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.observations.load_state_dict(state["observations"])
        self.rewards.load_state_dict(state["rewards"])
        self.behaviour.load_state_dict(state["behaviour"])
        self.learner.load_state_dict(state["learner"])
        self.best.load_state_dict(state["best"])


class MultiTaskTrainer(Trainer):
    """`load_dataset` once, then `step()` until `done`; the data is the trainer's replay and is saved with it."""

    step_name = "iteration"
    phases = ("model", "policy", "evaluate")
    replay: Replay

    def __init__(
        self,
        config: PWMConfig,
        tasks: Sequence[Task],
        seed: int,
        device: str = "cpu",
        compress: bool = True,
        progress: Progress = no_progress,
    ) -> None:
        self.config, self.tasks, self.seed = config, tuple(tasks), seed
        self.device = torch.device(device)
        observations = max(task.observation_size for task in tasks)
        actions = max(task.action_size for task in tasks)
        stream = seeds.torch_generator(seed, "model")
        self.model = TaskWorldModel(
            config.model, observations, actions, len(tasks), config.multitask.embedding, stream
        ).to(self.device)
        self.optimiser = Optimiser("model", self.model, config.model.learning_rate, config.model.clip)
        self.micro_batches = MicroBatches()
        self.policies = [
            TaskPolicy(task, k, config, seed, self.model, self.micro_batches) for k, task in enumerate(tasks)
        ]
        self.headline = ("model_loss", *(f"return_{task.name}" for task in tasks))
        self._progress = progress
        self._compress = compress
        self.use_replay(Replay(union_schema(tasks), 1, 0, compress=compress))
        self.iteration = 0

    @property
    def steps(self) -> int:
        return self.config.iterations + len(self.tasks) * self.config.multitask.policy_iterations

    @property
    def done(self) -> bool:
        return self.iteration >= self.steps

    @property
    def best_score(self) -> float:
        """Mean of the tasks' best evaluations; all tasks are evaluated for the first time when the model is done."""
        return float(np.mean([policy.best.score for policy in self.policies]))

    def load_dataset(self, sources: Sequence[tuple[int, Replay]]) -> None:
        """The data: (number of the task, its replay), at least one for each task."""
        self.use_replay(unite(self.tasks, sources, seeds.integer(self.seed, "replay"), self._compress))
        for number, (policy, starts) in enumerate(zip(self.policies, self._starts, strict=True)):
            if len(starts) == 0:
                raise DataError(
                    f"the data of {self.tasks[number].name} has no episode with {self.config.horizon} consecutive "
                    "transitions; give more of it or use a shorter alg.horizon"
                )
            for part in np.array_split(self._all[number], max(1, len(self._all[number]) // 10_000)):
                batch = self.replay.transitions(part)
                policy.observations.update(batch.observation["obs"].numpy())
                policy.rewards.update(batch.step["reward"].numpy()[:, None])

    def use_replay(self, replay: Replay) -> None:
        self.replay = replay
        links, count = replay.links, len(self.tasks)
        self._all = transitions_by_task(replay, count, np.arange(links.first, links.total))
        self._starts = transitions_by_task(replay, count, links.can_follow(self.config.horizon - 1))

    def step(self) -> Metrics:
        """Metrics of the model, or of one task's policy under its name; `return_<task>` when it was evaluated."""
        if self.iteration >= self.config.iterations:
            return self._train_policy()
        metrics = self._train_model()
        self.iteration += 1
        if self.iteration == self.config.iterations:
            for number in range(len(self.policies)):
                metrics |= self._evaluate(number)
        return metrics

    def evaluate(self, number: int, episodes: int, purpose: str = "evaluate") -> ControlRollout:
        """A task's policy in that task's own environment."""
        policy = self.policies[number]
        return play_episodes(policy.task, policy.greedy(), episodes, self.seed, purpose)

    def best_weights(self) -> dict[str, Tensor]:
        """The world model, and for each task the actor of its best evaluation and its statistics."""
        named: dict[str, Any] = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for policy in self.policies:
            actor = (policy.best.weights or policy.behaviour.state_dict())["actor"]
            prefix = f"tasks.{policy.task.name}"
            named |= {f"{prefix}.actor.{name}": value for name, value in actor.items()}
            statistics = policy.observations.state_dict()
            named |= {
                f"{prefix}.observations.{name}": np.asarray(value) for name, value in statistics.items()
            }
        return {name: torch.as_tensor(value).detach().cpu().clone() for name, value in named.items()}

    def take_records(self) -> dict[str, list[dict[str, Any]]]:
        return {"events": self.micro_batches.take_news()}

    def owners(self) -> dict[str, int]:
        behaviours = [policy.behaviour.owners() for policy in self.policies]
        return {
            "model": held_bytes(self.model.state_dict()),
            **{name: sum(owned[name] for owned in behaviours) for name in behaviours[0]},
            "optimisers": self.optimiser.nbytes + sum(policy.learner.nbytes for policy in self.policies),
            "best": held_bytes([policy.best.weights for policy in self.policies]),
            **super().owners(),
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "iteration": self.iteration,
            "model": {name: value.detach().clone() for name, value in self.model.state_dict().items()},
            "optimiser": self.optimiser.state_dict(),
            "policies": [policy.state_dict() for policy in self.policies],
            "parts": self.micro_batches.parts,
        }

    def upgraded(self, state: dict[str, Any]) -> dict[str, Any]:
        return upgrade(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        state = self.upgraded(state)
        self.iteration = int(state["iteration"])
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        for policy, saved in zip(self.policies, state["policies"], strict=True):
            policy.load_state_dict(saved)
        self.micro_batches.parts = int(state["parts"])

    def _train_model(self) -> Metrics:
        """`model.updates` gradient steps on batches in which all tasks have the same share."""
        config = self.config
        draws = seeds.generator(self.seed, "task sequences", self.iteration)
        times = seeds.torch_generator(self.seed, "task flow time", self.iteration)
        lr_scale = linear_lr_scale(self.iteration, config.iterations, config.final_lr_scale)
        self._progress("model", 0, config.model.updates)
        for update in range(config.model.updates):
            batch, task = self._draw(config.model.batch, draws)
            loss, norm = fit_model(
                self.model, self.optimiser, batch, config.gamma, times, lr_scale, self.micro_batches, self._conditioned(batch, task)
            )  # fmt: skip
            self._progress("model", update + 1, config.model.updates)
        return loss.metrics() | {"model_gradient": norm}

    def _conditioned(self, batch: SequenceBatch, task: Tensor) -> Part:
        return lambda runs: self.model.conditioned(batch.part(runs), task[runs])

    def _draw(self, n: int, stream: np.random.Generator) -> tuple[SequenceBatch, Tensor]:
        """About n sequences, normalised task by task, and the tasks they are of."""
        each = -(-n // len(self.tasks))
        starts = [numbers[stream.integers(0, len(numbers), each)] for numbers in self._starts]
        batch = sequences_from(self.replay, np.concatenate(starts), self.config.horizon)
        task = torch.arange(len(self.tasks)).repeat_interleave(each)
        statistics = [policy.observations.tensors(self.device) for policy in self.policies]
        mean, inverse = (torch.stack(values)[task] for values in zip(*statistics, strict=True))
        scale = torch.tensor([1.0 / float(policy.rewards.deviation[0]) for policy in self.policies])[task]
        observation = ((batch.observation.to(self.device) - mean) * inverse).clamp(-10.0, 10.0)
        return SequenceBatch(
            observation,
            batch.action.to(self.device),
            batch.reward.to(self.device) * scale.to(self.device),
            batch.terminated.to(self.device),
        ), task.to(self.device)

    def _train_policy(self) -> Metrics:
        """One iteration of the task whose turn it is: `actor.updates` imagined rollouts from its own data."""
        config, length = self.config, self.config.multitask.policy_iterations
        number, done = divmod(self.iteration - config.iterations, length)
        policy = self.policies[number]
        draws = seeds.generator(self.seed, "task starts", self.iteration)
        noise_stream = seeds.torch_generator(self.seed, "task imagine", self.iteration)
        order = seeds.torch_generator(self.seed, "task minibatches", self.iteration)
        lr_scale = linear_lr_scale(done, length, config.final_lr_scale)
        shape = (config.horizon, config.actor.batch, policy.task.action_size)
        metrics: Metrics = {}
        self._progress("policy", 0, config.actor.updates)
        for update in range(config.actor.updates):
            numbers = self._all[number][draws.integers(0, len(self._all[number]), config.actor.batch)]
            observation = self.replay.transitions(numbers).observation["obs"][
                :, : policy.task.observation_size
            ]
            with torch.no_grad():
                start = policy.latent(observation)
            noise = torch.randn(shape, generator=noise_stream).to(self.device)
            metrics = policy.learner.improve(policy.view, start, noise, order, lr_scale)
            self._progress("policy", update + 1, config.actor.updates)
        self.iteration += 1
        if done + 1 == length or (done + 1) % config.evaluate_every == 0:
            metrics |= self._evaluate(number)
        return {"task": float(number), **metrics}

    def _evaluate(self, number: int) -> Metrics:
        episodes = self.config.evaluate_episodes
        self._progress("evaluate", 0, episodes)
        result = self.evaluate(number, episodes)
        self._progress("evaluate", episodes, episodes)
        policy = self.policies[number]
        policy.best.record(result.mean, self.iteration, policy.behaviour.state_dict)
        return {f"return_{policy.task.name}": result.mean}
