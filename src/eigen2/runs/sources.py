"""Replays of other runs: where they are, and how they reach a trainer that has just been built.

A source is read once, when a run begins. From the run's first checkpoint on, the data is part of the run itself, and a
resume never looks at the source again.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from eigen2.config import Config, validate
from eigen2.envs.config import GymConfig
from eigen2.envs.control.config import ControlConfig, TasksConfig
from eigen2.errors import ConfigError, DamagedStateError, DataError
from eigen2.pwm.config import PWMConfig
from eigen2.pwm.multitask import MultiTaskTrainer
from eigen2.pwm.trainer import PWMTrainer
from eigen2.replay import Replay
from eigen2.runs.build import Built
from eigen2.runs.directory import RunDirectory, find_run
from eigen2.store.checkpoints import Checkpoint, Checkpoints
from eigen2.store.durable import make_directory

Result = TypeVar("Result")


def begin(built: Built) -> dict[str, Any]:
    """Give a fresh trainer the data that its config names; returns what run.json says about it."""
    config, trainer = built.config, built.trainer
    if isinstance(trainer, MultiTaskTrainer) and isinstance(config.env, TasksConfig):
        read = [read_replay(path) for path in config.env.replays]
        numbers = [config.env.distinct.index(task) for task in config.env.tasks]
        trainer.begin(list(zip(numbers, (replay for replay, _ in read), strict=True)))
        return {"trained_on": [facts for _, facts in read]}
    if isinstance(trainer, PWMTrainer) and trainer.config.pretrain.replay is not None:
        replay, facts = read_replay(trainer.config.pretrain.replay)
        trainer.begin(replay)
        return {"pretrained_from": facts}
    return {}


def with_located_sources(config: Config) -> Config:
    """Other runs whose data this one begins with, by absolute paths, and the tasks they are of."""
    alg, env, root = config.alg, config.env, config.run.root
    if isinstance(alg, PWMConfig) and alg.pretrain.replay is not None:
        pretrain = alg.pretrain.model_copy(update={"replay": locate(alg.pretrain.replay, root)})
        return config.model_copy(update={"alg": alg.model_copy(update={"pretrain": pretrain})})
    if isinstance(env, TasksConfig):
        if not env.replays:
            raise ConfigError("env=tasks needs data: env.replays=[RUN,RUN,...], one run for each task.")
        replays = tuple(locate(path, root) for path in env.replays)
        tasks = tuple(_task_of(path) for path in replays)
        return config.model_copy(update={"env": env.model_copy(update={"replays": replays, "tasks": tasks})})
    return config


def _task_of(source: Path) -> ControlConfig | GymConfig:
    """The task whose experience a source holds, from the run's own config."""
    env = RunDirectory(source.parent.parent if source.is_file() else source).read_config().env
    if isinstance(env, ControlConfig):
        return ControlConfig(task=env.task)
    if isinstance(env, GymConfig):
        return env
    raise DataError(f"{source} holds no experience of one control task (its env is {env.kind}).")


def write_source(directory: Path, env: ControlConfig | GymConfig, replay: Replay) -> None:
    """Your own data as a directory that alg.pretrain.replay and env.replays read: the layout of a run, untrained."""
    if directory.exists():
        raise ConfigError(f"{directory} exists; name a new directory.")
    make_directory(directory)
    config = validate({"alg": {"kind": "pwm"}, "env": env.model_dump(mode="json")})
    Checkpoints(directory).save(0, {}, replay=replay.snapshot())
    RunDirectory(directory).write_config(config)


def locate(path: Path, root: Path) -> Path:
    """The absolute path of a source given as a checkpoint's manifest, a run directory or a run's name."""
    given = path.expanduser()
    if given.is_file():
        _checkpoint_name(given)
        return Path(os.path.abspath(given))
    return find_run(str(given), root).path


def read_replay(source: Path) -> tuple[Replay, dict[str, Any]]:
    """The replay at an absolute path, every byte proven, and what it is."""
    if source.is_file():
        run, name = source.parent.parent, _checkpoint_name(source)
    elif (source / "checkpoints").is_dir():
        run, name = source, None
    else:
        raise ConfigError(f"{source} is neither a run with checkpoints nor one of its checkpoint files.")
    checkpoints = Checkpoints(run)
    name = name or next((n for n in ("final", "latest") if n in checkpoints.names()), None)
    if name is None:
        raise ConfigError(f"{source} has no checkpoint yet; let it train for a while first.")

    def restore(checkpoint: Checkpoint) -> Replay:
        if checkpoint.manifest.replay is None:
            raise ConfigError(f"checkpoint '{name}' of {run} holds no replay; use final, latest or previous.")
        return Replay.restore(checkpoint.manifest.replay, checkpoint.replay_blob)

    checkpoint, replay = read_steadily(checkpoints, name, restore)
    if len(replay) == 0:
        raise ConfigError(f"The replay of {source} is empty; let the run train for a while first.")
    facts = {
        "path": str(source),
        "checkpoint": name,
        "step": checkpoint.manifest.step,
        "transitions": len(replay),
    }
    return replay, facts


def read_steadily(
    checkpoints: Checkpoints, name: str, read: Callable[[Checkpoint], Result]
) -> tuple[Checkpoint, Result]:
    """Read a checkpoint of a run that may be training: one that was replaced meanwhile is read again."""
    while True:
        checkpoint = checkpoints.load(name)
        try:
            return checkpoint, read(checkpoint)
        except DamagedStateError:
            if checkpoints.load(name).manifest == checkpoint.manifest:
                raise


def _checkpoint_name(file: Path) -> str:
    if file.suffix != ".json" or file.parent.name != "checkpoints":
        raise ConfigError(f"{file} is no checkpoint; name a run or one of RUN/checkpoints/*.json.")
    return file.stem
