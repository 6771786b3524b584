"""Runs whose stored experience a run begins with: where they are, and of which tasks. Importing this imports no torch."""

from pathlib import Path
from typing import TYPE_CHECKING

from eigen2.algorithms.contract import Datasets
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.envs.config import GymConfig
from eigen2.envs.control.config import ControlConfig, TasksConfig
from eigen2.errors import ConfigError, DataError

if TYPE_CHECKING:
    from eigen2.config import Config


def with_located_sources(config: "Config", datasets: Datasets) -> "Config":
    """The same config with absolute paths, and the tasks of `env.replays` filled in."""
    alg, env = config.alg, config.env
    assert isinstance(alg, PWMConfig)
    source = alg.pretrain.replay
    if isinstance(env, TasksConfig):
        if source is not None:
            raise ConfigError("env=tasks is trained on env.replays alone; leave alg.pretrain.replay out.")
        return config.model_copy(update={"env": _located(env, datasets)})
    if source is None:
        return config
    pretrain = alg.pretrain.model_copy(update={"replay": datasets.locate(source)})
    return config.model_copy(update={"alg": alg.model_copy(update={"pretrain": pretrain})})


def _located(env: TasksConfig, datasets: Datasets) -> TasksConfig:
    if not env.replays:
        raise ConfigError("env=tasks needs data: env.replays=[RUN,RUN,...], one run for each task.")
    replays = tuple(datasets.locate(path) for path in env.replays)
    tasks = tuple(_task_of(path, datasets) for path in replays)
    return env.model_copy(update={"replays": replays, "tasks": tasks})


def _task_of(source: Path, datasets: Datasets) -> ControlConfig | GymConfig:
    """The task whose experience a source holds, from the run's own config."""
    env = datasets.config(source).env
    if isinstance(env, ControlConfig):
        return ControlConfig(task=env.task)
    if isinstance(env, GymConfig):
        return env
    raise DataError(f"{source} holds no experience of one control task (its env is {env.kind}).")
