"""The model card: what an exported policy is, what it scored, what that is worth, and how to use it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.parity import ParameterCounts


@dataclass(frozen=True)
class CardFacts:
    run: str
    task: str
    seed: int
    observation_size: int
    action_size: int
    action_bounds: str
    counts: ParameterCounts
    iteration: int
    """Iterations done when the run was exported."""
    env_steps: int
    episodes: int
    scores: Mapping[str, float]
    """Mean return of each exported policy on fresh episodes."""
    random_return: float
    stand_still_return: float
    best_evaluation: float | None
    """The evaluation during training by which `best` was chosen."""
    files: Mapping[str, str]
    """File -> what it is."""
    absent: Mapping[str, str]
    """File -> why it does not exist yet."""
    config_hash: str
    versions: Mapping[str, str | None]
    note: str | None
    """What must be said beside every score of the task."""
    pretrained_from: Mapping[str, Any] | None
    """The replay the world model was fitted to first."""


def model_card(config: PWMConfig, facts: CardFacts) -> str:
    """Markdown."""
    return "\n".join(
        [
            f"# PWM policy for {facts.task}",
            "",
            f"A policy learned by first-order gradients through a world model ({config.model.dynamics} dynamics) in the "
            f"run `{facts.run}`, seed {facts.seed}. It maps {facts.observation_size} observations to "
            f"{facts.action_size} actions in {facts.action_bounds}.",
            *_scores(facts),
            *_files(facts),
            *_use(facts),
            *_making(config, facts),
            *_limits(facts),
        ]
    )


def bounds_in_words(low: NDArray[Any], high: NDArray[Any]) -> str:
    """[-2, 2] when all are alike."""
    first, last = np.unique(low), np.unique(high)
    if len(first) == len(last) == 1:
        return f"[{first[0]:g}, {last[0]:g}]"
    return f"{low.tolist()} to {high.tolist()}"


def _scores(facts: CardFacts) -> list[str]:
    rows = [f"| {name} | {score:.1f} |" for name, score in facts.scores.items()]
    lines = [
        "",
        "## Score",
        "",
        f"| mean return over {facts.episodes} fresh episodes | |",
        "|---|---|",
        *rows,
        f"| standing still | {facts.stand_still_return:.1f} |",
        f"| random actions | {facts.random_return:.1f} |",
        "",
        "Real rewards, closed loop, no exploration noise.",
    ]
    if facts.best_evaluation is not None:
        lines.append(
            f"The best evaluation during training was {facts.best_evaluation:.1f}; `best` was chosen by it, so that "
            "number flatters, and the fresh episodes above are the ones to quote."
        )
    if facts.note:
        lines.append(f"{facts.note}.")
    return lines


def _files(facts: CardFacts) -> list[str]:
    rows = [f"| `{name}` | {what} |" for name, what in facts.files.items()]
    rows += [f"| `{name}` | not there yet: {why} |" for name, why in facts.absent.items()]
    return ["", "## Files", "", "| file | |", "|---|---|", *rows]


def _use(facts: CardFacts) -> list[str]:
    return [
        "",
        "## Load it and act",
        "",
        "```python",
        "import numpy as np",
        "import eigen2",
        "from eigen2.algorithms.pwm.export import load_policy",
        "",
        f"observations = np.zeros((1, {facts.observation_size}), dtype=np.float32)  # raw, as the environment gives them",
        'champion = eigen2.load(".")  # the best policy; a run directory will do, too',
        f"actions = champion.act(observations)  # {facts.action_size} each, in {facts.action_bounds}",
        f'actions = load_policy("{list(facts.files)[-1]}")(observations)  # one of the others',
        "```",
        "",
        "The environment's action bounds are stored with the policies and applied: actions can be given to it as they are. "
        "`champion.pt2` is the best policy as a graph: `torch.export.load(path).module()(observations)`.",
        "",
        "The .pt files hold plain tensors: `torch.load(path, weights_only=True)` opens them without this package and runs no "
        "code. Keys: `weights` (`model.*`, `actor.*`, `observations.*`), `config` (JSON), sizes, task, iteration.",
    ]


def _making(config: PWMConfig, facts: CardFacts) -> list[str]:
    counts, model = facts.counts, config.model
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items() if version)
    rows = {
        "world model": f"{counts.model:,} parameters, latent {model.latent}, units {list(model.units)}, "
        f"reward {model.reward}",
        "actor": f"{counts.actor:,} parameters, gaussian, units {list(config.actor.units)}",
        "critics": f"{counts.critic:,} parameters, {config.critic.members} networks",
        "data seen": f"{facts.env_steps:,} environment steps in {facts.iteration} of {config.iterations} iterations",
        "pretraining": _pretraining(config, facts),
        "config hash": f"`{facts.config_hash}`",
        "versions": versions or "unknown",
    }
    return ["", "## How it was made", "", "| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in rows.items())]


def _pretraining(config: PWMConfig, facts: CardFacts) -> str:
    if facts.pretrained_from is None:
        return "none"
    source = facts.pretrained_from
    return (
        f"{config.pretrain.updates:,} updates on {source['transitions']:,} transitions of `{source['path']}`"
    )


def _limits(facts: CardFacts) -> list[str]:
    return [
        "",
        "## Limits",
        "",
        f"- It was trained and scored in simulation on {facts.task} alone; other dynamics, delays or observation noise "
        "were never seen.",
        "- One seed. Seeds of one algorithm differ; compare several before you believe a difference.",
        "- A score means something only beside standing still and random actions.",
        "- `latest_checkpoint.pt` holds the training state without the replay; to continue a run, resume its directory "
        "(`eigen2 train --resume`), which is exact.",
        "",
    ]
