"""Closed-loop evaluation of a control policy, beside what random actions and standing still earn.

Standing still is shown because on many tasks it is already worth a lot: a policy has learned nothing until it beats
it. All three play the same fresh episodes, which training never saw.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from eigen2.envs.control.environments import Task
from eigen2.envs.control.reference_policies import at_random, stand_still
from eigen2.envs.control.rollout import Policy, play_episodes
from eigen2.evaluation.panels import Bars
from eigen2.evaluation.result import Evaluation

EPISODES = 20
FRESH = "final"
"""Purpose of the episodes that are played for evaluation alone."""
PANELS = (
    Bars("Returns of fresh episodes", "episodes", ("champion", "random", "stand_still"), unit="return"),
)
Columns = dict[str, NDArray[np.generic]]


def evaluate_control(task: Task, policy: Policy, *, seed: int, episodes: int = EPISODES) -> Evaluation:
    """`episodes` whole episodes with the policy, and the same ones at random and standing still."""
    facts, columns = _played(task, policy, seed, episodes)
    shown = Group(_table(task.name, facts), *_notes([task]))
    told = {"env": task.name, "verdict": _verdict(facts), **_note([task]), **facts}
    return Evaluation(told, shown, {"episodes": columns}, PANELS)


def evaluate_tasks(
    policies: Sequence[tuple[Task, Policy]], *, seed: int, episodes: int = EPISODES
) -> Evaluation:
    """Every policy in its own task; the means over tasks are for orientation only."""
    tasks = [task for task, _ in policies]
    played = [_played(task, policy, seed, episodes) for task, policy in policies]
    by_task = {task.name: facts for task, (facts, _) in zip(tasks, played, strict=True)}
    means = {
        key: float(np.mean([facts[key] for facts, _ in played]))
        for key in ("mean_return", "std_return", "random_return", "stand_still_return")
    }
    numbered = [{"task": np.full(episodes, k), **columns} for k, (_, columns) in enumerate(played)]
    return Evaluation(
        {"env": "tasks", **_note(tasks), **means, "episodes": episodes, "tasks": by_task},
        Group(*(_table(name, facts) for name, facts in by_task.items()), *_notes(tasks)),
        {"episodes": {name: np.concatenate([columns[name] for columns in numbered]) for name in numbered[0]}},
        PANELS,
    )


def _played(task: Task, policy: Policy, seed: int, episodes: int) -> tuple[dict[str, Any], Columns]:
    """Facts about the returns, and the returns by policy."""
    own, random, still = (
        play_episodes(task, played, episodes, seed, FRESH)
        for played in (policy, at_random(task, seed), stand_still(task))
    )
    facts = {
        "mean_return": own.mean,
        "std_return": float(own.returns.std(ddof=1)) if episodes > 1 else 0.0,
        "episodes": episodes,
        "random_return": random.mean,
        "stand_still_return": still.mean,
        "returns": own.returns.tolist(),
    }
    columns: Columns = {
        "champion": own.returns,
        "random": random.returns,
        "stand_still": still.returns,
        "length": own.lengths,
    }
    return facts, columns


def _table(name: str, facts: dict[str, Any]) -> RenderableType:
    table = Table(title=f"{name}, {facts['episodes']} fresh episodes", title_justify="left")
    for column in ("", "mean return", "deviation"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("champion", f"{facts['mean_return']:.1f}", f"{facts['std_return']:.1f}")
    table.add_row("random actions", f"{facts['random_return']:.1f}", "")
    table.add_row("standing still", f"{facts['stand_still_return']:.1f}", "")
    return Group(table, Text(_verdict(facts)))


def _verdict(facts: dict[str, Any]) -> str:
    best = max(facts["random_return"], facts["stand_still_return"])
    better = "better than" if facts["mean_return"] > best else "no better than"
    return f"The champion is {better} both random actions and standing still."


def _note(tasks: Sequence[Task]) -> dict[str, str]:
    notes = dict.fromkeys(task.note for task in tasks if task.note is not None)
    return {"note": "; ".join(notes)} if notes else {}


def _notes(tasks: Sequence[Task]) -> list[Text]:
    return [Text(note, style="dim") for note in _note(tasks).values()]
