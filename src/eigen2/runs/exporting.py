"""`export`: a run's policies as files for people who do not have this package's run directory.

Everything is written into a directory of its own and appears under its name by one rename, so an export is complete or
not there. An export of the same run is replaced; anything else that stands in the way is left alone.
"""

import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigen2.config import Config
from eigen2.envs.config import GymConfig
from eigen2.envs.control.config import ControlConfig
from eigen2.envs.control.environments import Task
from eigen2.envs.control.gymnasium_task import GymnasiumTask
from eigen2.envs.control.reference_policies import at_random, play, stand_still
from eigen2.envs.control.task import PHYSICS_NOTE
from eigen2.errors import ConfigError
from eigen2.pwm.agent import policy_in, policy_weights
from eigen2.pwm.card import CardFacts, model_card
from eigen2.pwm.config import PWMConfig
from eigen2.pwm.export import load_policy, save_checkpoint, save_policy
from eigen2.pwm.parity import count_parameters
from eigen2.runs.build import control_task
from eigen2.runs.directory import RunDirectory
from eigen2.runs.judging import EPISODES
from eigen2.runs.metadata import read_metadata
from eigen2.runs.saving import config_hash
from eigen2.runs.sources import read_steadily
from eigen2.store.checkpoints import Checkpoint, Checkpoints
from eigen2.store.disk import ensure_room
from eigen2.store.durable import sync_directory
from eigen2.store.state import state_bytes

FILES = {
    "init": "init_policy.pt",
    "best": "best_policy.pt",
    "latest": "latest_checkpoint.pt",
    "final": "final_policy.pt",
}
MEANING = {
    "init": "the policy before training",
    "best": "the policy of the best evaluation during training",
    "latest": "the newest checkpoint: policy and training state, without the replay",
    "final": "the policy at the end of the run",
}
ABSENT = {
    "init": "the run has not begun",
    "best": "the policy has not been evaluated yet",
    "latest": "the run has no checkpoint yet",
    "final": "the run has not ended",
}
CARD, RECORD = "README.md", "export.json"


@dataclass(frozen=True)
class Source:
    """What is exported."""

    run: RunDirectory
    config: Config
    alg: PWMConfig
    task: Task
    states: dict[str, dict[str, Any]]
    """Training state by checkpoint name."""


def export_run(run: RunDirectory, target: Path | None) -> dict[str, Any]:
    """Write the files and the card; returns what is there and what is not."""
    source = _read(run)
    directory = (target or run.path / "export").expanduser().absolute()
    _refuse_others(directory, source)
    ensure_room(directory, sum(state_bytes(state) for state in source.states.values()))
    new = directory.parent / f".export-{secrets.token_hex(8)}"
    try:
        new.mkdir(parents=True)
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise ConfigError(
            f"{directory} cannot be written ({error.strerror}); name another with --to."
        ) from error
    try:
        facts = _write(new, source)
        _publish(new, directory)
    except BaseException:
        shutil.rmtree(new)
        raise
    return {"run": str(run.path), "directory": str(directory), **facts}


def _read(run: RunDirectory) -> Source:
    config = run.read_config()
    if not isinstance(config.alg, PWMConfig):
        raise ConfigError(
            f"{run.path} is a run of {config.alg.kind}, whose champion is already a plain file: "
            f"{run.path / 'best_agent.safetensors'}; `export` is for PWM runs."
        )
    if not isinstance(config.env, ControlConfig | GymConfig):
        raise ConfigError(
            f"{run.path} learned several tasks; its world model and best policies are in "
            f"{run.path / 'best_agent.safetensors'}; `export` is for runs of one task."
        )
    checkpoints = Checkpoints(run.path)
    there = [name for name in FILES if name in checkpoints.names()]
    states = {name: read_steadily(checkpoints, name, Checkpoint.state)[1] for name in there}
    if not states:
        raise ConfigError(f"{run.path} has no checkpoint yet; there is nothing to export.")
    return Source(run, config, config.alg, control_task(config.env), states)


def _refuse_others(directory: Path, source: Source) -> None:
    """Only an earlier export of the same run may be replaced."""
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return
    known = {CARD, RECORD, *FILES.values()}
    if directory.is_dir() and {path.name for path in directory.iterdir()} <= known:
        try:
            record = json.loads((directory / RECORD).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            record = {}
        if isinstance(record, dict) and record.items() >= _identity(source).items():
            return
    raise ConfigError(
        f"{directory} exists and is not an export of {source.run.name}; name another directory with --to."
    )


def _identity(source: Source) -> dict[str, Any]:
    return {"format": 1, "name": source.run.name, "config_hash": config_hash(source.config)}


def _write(directory: Path, source: Source) -> dict[str, Any]:
    for name, state in source.states.items():
        _write_policy(directory / FILES[name], name, state, source)
    scores = _play(directory, source)
    card = model_card(source.alg, _card_facts(source, scores))
    (directory / CARD).write_text(card, encoding="utf-8")
    files = {
        FILES[name]: {
            "iteration": _iteration(name, state),
            "mean_return": scores[FILES[name]],
            "bytes": (directory / FILES[name]).stat().st_size,
        }
        for name, state in source.states.items()
    }
    facts = {
        "task": source.task.name,
        "episodes": EPISODES,
        "random_return": scores["random"],
        "stand_still_return": scores["stand_still"],
        "files": files,
        "absent": _absent(source),
    }
    record = json.dumps({**_identity(source), **facts}, indent=2, allow_nan=False)
    (directory / RECORD).write_text(record + "\n", encoding="utf-8")
    for path in directory.iterdir():
        with open(path, "rb") as written:
            os.fsync(written.fileno())
    sync_directory(directory)
    return facts


def _write_policy(path: Path, name: str, state: dict[str, Any], source: Source) -> None:
    if name == "latest":
        save_checkpoint(path, state, source.alg, source.task)
    else:
        weights = policy_weights(state["best"]["weights"]) if name == "best" else policy_in(state)
        save_policy(path, weights, source.alg, source.task, _iteration(name, state))


def _iteration(name: str, state: dict[str, Any]) -> int:
    """The iteration a file's policy is of; the best one was evaluated some time before it was saved."""
    return int((state["best"] if name == "best" else state)["iteration"])


def _absent(source: Source) -> dict[str, str]:
    return {FILES[name]: why for name, why in ABSENT.items() if name not in source.states}


def _play(directory: Path, source: Source) -> dict[str, float]:
    """Mean return of every written file, loaded again, on the same fresh episodes as the reference policies."""
    task, seed = source.task, source.config.seed
    policies = {FILES[name]: load_policy(directory / FILES[name]) for name in source.states}
    policies |= {"random": at_random(task, seed), "stand_still": stand_still(task)}
    return {name: play(task, policy, EPISODES, seed, "final").mean for name, policy in policies.items()}


def _card_facts(source: Source, scores: dict[str, float]) -> CardFacts:
    task, states = source.task, source.states
    newest = states.get("final", states["latest"])
    return CardFacts(
        run=source.run.name,
        task=task.name,
        seed=source.config.seed,
        observation_size=task.observation_size,
        action_size=task.action_size,
        counts=count_parameters(source.alg, task.observation_size, task.action_size),
        iteration=int(newest["iteration"]),
        env_steps=int(newest["collector"]["steps"]),
        episodes=EPISODES,
        scores={FILES[name]: scores[FILES[name]] for name in states},
        random_return=scores["random"],
        stand_still_return=scores["stand_still"],
        best_evaluation=states["best"]["best"]["score"] if "best" in states else None,
        files={
            FILES[name]: f"{MEANING[name]}, iteration {_iteration(name, states[name])}" for name in states
        },
        absent=_absent(source),
        config_hash=config_hash(source.config),
        versions=read_metadata(source.run).get("packages", {}),
        pretrained_from=read_metadata(source.run).get("pretrained_from"),
        physics_note=None if isinstance(task, GymnasiumTask) else PHYSICS_NOTE,
    )


def _publish(new: Path, directory: Path) -> None:
    """`new` becomes `directory`; an earlier export is moved aside first and removed last."""
    if not directory.exists():
        os.rename(new, directory)
    else:
        aside = directory.parent / f".export-{secrets.token_hex(8)}"
        os.rename(directory, aside)
        os.rename(new, directory)
        shutil.rmtree(aside)
    sync_directory(directory.parent)
