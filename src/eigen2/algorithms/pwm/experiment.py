"""From a config to what a PWM run stands on: tasks, trainer, and how they are evaluated and exported."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import torch

from eigen2.algorithms.contract import Champion, Evaluation, Experiment, Services, WhatIf, refuse_what_if
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.export_run import write_export
from eigen2.algorithms.pwm.multitask import MultiTaskTrainer
from eigen2.algorithms.pwm.trainer import PWMTrainer
from eigen2.config import Config
from eigen2.envs.config import EnvConfig
from eigen2.envs.control.catalogue import control_task
from eigen2.envs.control.config import TasksConfig
from eigen2.envs.control.environments import Task
from eigen2.errors import ConfigError
from eigen2.evaluation.champion import ControlChampion
from eigen2.evaluation.control import evaluate_control, evaluate_tasks
from eigen2.nets.device import pick_device


@contextmanager
def open_experiment(config: Config, services: Services) -> Iterator[Experiment]:
    """Environments are closed when the context ends."""
    torch.set_num_threads(config.threads)
    env = config.env
    envs: Sequence[EnvConfig] = env.distinct if isinstance(env, TasksConfig) else [env]
    with ExitStack() as stack:
        tasks = [stack.enter_context(closing(control_task(one))) for one in envs]
        if isinstance(env, TasksConfig):
            yield MultiTaskExperiment(config, services, tasks)
        else:
            yield PWMExperiment(config, services, tasks[0])


class PWMExperiment(Experiment):
    """One task."""

    trainer: PWMTrainer

    def __init__(self, config: Config, services: Services, task: Task) -> None:
        self.config, self.services, self.task = config, services, task
        self.notes = () if task.note is None else (task.note,)
        assert isinstance(config.alg, PWMConfig)
        self.trainer = PWMTrainer(
            config.alg, task, config.seed, config.replay.capacity, pick_device(config.device).type,
            config.replay.compress, services.progress,
        )  # fmt: skip

    def evaluate(self, split: str, what_if: WhatIf | None = None) -> Evaluation:
        """The policy of the best evaluation; there are no splits, the episodes are fresh."""
        refuse_what_if(what_if)
        return evaluate_control(self.task, self.trainer.champion(), seed=self.config.seed)

    def load_dataset(self) -> dict[str, Any]:
        source = self.trainer.config.pretrain.replay
        if source is None:
            return {}
        replay, facts = self.services.datasets.replay(source)
        self.trainer.load_dataset(replay)
        return {"pretrained_from": facts}

    def champion(self) -> Champion:
        return ControlChampion(
            self.trainer.champion(), self.task.observation_size, *self.task.action_bounds, self.task
        )

    def export(self, directory: Path, states: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        return write_export(directory, states, self.config, self.task, self.services.metadata())


class MultiTaskExperiment(Experiment):
    """Several tasks from stored experience."""

    trainer: MultiTaskTrainer

    def __init__(self, config: Config, services: Services, tasks: Sequence[Task]) -> None:
        self.config, self.services, self.tasks = config, services, tasks
        self.notes = tuple(dict.fromkeys(task.note for task in tasks if task.note is not None))
        assert isinstance(config.alg, PWMConfig)
        self.trainer = MultiTaskTrainer(
            config.alg, tasks, config.seed, pick_device(config.device).type, compress=config.replay.compress,
            progress=services.progress,
        )  # fmt: skip

    def evaluate(self, split: str, what_if: WhatIf | None = None) -> Evaluation:
        """Every task's best policy, in its own environment."""
        refuse_what_if(what_if)
        policies = [(policy.task, policy.champion()) for policy in self.trainer.policies]
        return evaluate_tasks(policies, seed=self.config.seed)

    def load_dataset(self) -> dict[str, Any]:
        env = self.config.env
        assert isinstance(env, TasksConfig)
        read = [self.services.datasets.replay(path) for path in env.replays]
        numbers = [env.distinct.index(task) for task in env.tasks]
        self.trainer.load_dataset(list(zip(numbers, (replay for replay, _ in read), strict=True)))
        return {"trained_on": [facts for _, facts in read]}

    def export(self, directory: Path, states: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        raise ConfigError(
            f"{self.services.metadata().get('name', 'this run')} learned several tasks; its world model and best policies "
            "are already a plain file in the run, best_agent.safetensors; `export` is for runs of one task."
        )
