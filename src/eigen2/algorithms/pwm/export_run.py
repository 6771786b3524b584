"""What `export` writes: a run's policies as plain files, each played on fresh episodes, and the model card."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigen2.algorithms.pwm.agent import champion_in, policy_in
from eigen2.algorithms.pwm.card import CardFacts, bounds_in_words, model_card
from eigen2.algorithms.pwm.champion import write_policy as write_champion
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.export import read_policy, save_checkpoint, save_policy, unit_policy
from eigen2.algorithms.pwm.parity import count_parameters
from eigen2.algorithms.pwm.upgrade import upgrade
from eigen2.config import Config, fingerprint
from eigen2.envs.control.environments import Task
from eigen2.envs.control.reference_policies import at_random, stand_still
from eigen2.envs.control.rollout import play_episodes
from eigen2.evaluation.control import EPISODES, FRESH

State = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """One of the files: what it is, and why it may not be there yet."""

    file: str
    meaning: str
    absent: str


KINDS = {
    "init": Kind("init_policy.pt", "the policy before training", "the run has not begun"),
    "best": Kind(
        "best_policy.pt",
        "the policy of the best evaluation during training",
        "the policy has not been evaluated yet",
    ),
    "latest": Kind(
        "latest_checkpoint.pt",
        "the newest checkpoint: policy and training state, without the replay",
        "the run has no checkpoint yet",
    ),
    "final": Kind("final_policy.pt", "the policy at the end of the run", "the run has not ended"),
}
"""By the checkpoint they come from."""


def write_export(
    directory: Path, states: Mapping[str, State], config: Config, task: Task, metadata: State
) -> dict[str, Any]:
    """`states` by checkpoint, `metadata` as in run.json; returns what is there and what is not."""
    assert isinstance(config.alg, PWMConfig)
    present: dict[str, dict[str, Any]] = {name: upgrade(states[name]) for name in KINDS if name in states}
    for name, state in present.items():
        _write_policy(directory / KINDS[name].file, name, state, config.alg, task)
    newest = next(present[name] for name in ("final", "latest", *present) if name in present)
    write_champion(directory, champion_in(newest), config, task, metadata.get("name", "unnamed"))
    scores = _play(directory, [KINDS[name].file for name in present], task, config.seed)
    card = _card(present, scores, config, config.alg, task, metadata)
    (directory / "README.md").write_text(card, encoding="utf-8")
    return {
        "task": task.name,
        "episodes": EPISODES,
        "random_return": scores["random"],
        "stand_still_return": scores["stand_still"],
        "files": {
            KINDS[name].file: {
                "iteration": _iteration(name, state),
                "mean_return": scores[KINDS[name].file],
                "bytes": (directory / KINDS[name].file).stat().st_size,
            }
            for name, state in present.items()
        },
        "absent": _absent(present),
    }


def _write_policy(path: Path, name: str, state: dict[str, Any], alg: PWMConfig, task: Task) -> None:
    if name == "latest":
        save_checkpoint(path, state, alg, task)
    else:
        weights = champion_in(state) if name == "best" else policy_in(state)
        save_policy(path, weights, alg, task, _iteration(name, state))


def _iteration(name: str, state: State) -> int:
    """The iteration a file's policy is of; the best one was evaluated some time before it was saved."""
    return int((state["best"] if name == "best" else state)["iteration"])


def _absent(present: Mapping[str, State]) -> dict[str, str]:
    return {kind.file: kind.absent for name, kind in KINDS.items() if name not in present}


def _play(directory: Path, files: list[str], task: Task, seed: int) -> dict[str, float]:
    """Mean return of every written file, loaded again, on the same fresh episodes as the reference policies."""
    policies = {file: unit_policy(read_policy(directory / file)) for file in files}
    policies |= {"random": at_random(task, seed), "stand_still": stand_still(task)}
    return {
        name: play_episodes(task, policy, EPISODES, seed, FRESH).mean for name, policy in policies.items()
    }


def _card(
    present: Mapping[str, State],
    scores: Mapping[str, float],
    config: Config,
    alg: PWMConfig,
    task: Task,
    metadata: State,
) -> str:
    newest = next(present[name] for name in ("final", "latest", *present) if name in present)
    facts = CardFacts(
        run=metadata.get("name", "unnamed"),
        task=task.name,
        seed=config.seed,
        observation_size=task.observation_size,
        action_size=task.action_size,
        action_bounds=bounds_in_words(*task.action_bounds),
        counts=count_parameters(alg, task.observation_size, task.action_size),
        iteration=int(newest["iteration"]),
        env_steps=int(newest["collector"]["steps"]),
        episodes=EPISODES,
        scores={KINDS[name].file: scores[KINDS[name].file] for name in present},
        random_return=scores["random"],
        stand_still_return=scores["stand_still"],
        best_evaluation=present["best"]["best"]["score"] if "best" in present else None,
        files={
            KINDS[name].file: f"{KINDS[name].meaning}, iteration {_iteration(name, state)}"
            for name, state in present.items()
        },
        absent=_absent(present),
        config_hash=fingerprint(config),
        versions=metadata.get("packages", {}),
        pretrained_from=metadata.get("pretrained_from"),
        note=task.note,
    )
    return model_card(alg, facts)
