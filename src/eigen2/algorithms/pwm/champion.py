"""The best policy of a PWM run by itself: for `eigen2.load`, and as a graph that torch alone can run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eigen2.algorithms.contract import Champion
from eigen2.algorithms.exports import read_champion, write_champion, write_graph
from eigen2.algorithms.pwm.agent import Agent, restored
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.normaliser import Normaliser
from eigen2.config import Config
from eigen2.envs.control.environments import Task
from eigen2.evaluation.champion import ControlChampion


def write_policy(
    directory: Path, weights: Mapping[str, Tensor], config: Config, task: Task, name: str
) -> None:
    """champion.safetensors, champion.json and champion.pt2."""
    assert isinstance(config.alg, PWMConfig)
    low, high = task.action_bounds
    facts = {
        "task": task.name,
        "run": {"name": name},
        "observation_size": task.observation_size,
        "action_size": task.action_size,
        "action": {"low": low.tolist(), "high": high.tolist(), "dtype": str(low.dtype)},
    }
    write_champion(directory, config, weights, facts)
    graph = PolicyGraph(
        *restored(config.alg, task.observation_size, task.action_size, weights),
        torch.as_tensor(low),
        torch.as_tensor(high),
    )
    write_graph(directory, graph, (torch.zeros(2, task.observation_size),), batch=True)


def load_champion(directory: Path) -> Champion:
    config, weights, facts = read_champion(directory)
    assert isinstance(config.alg, PWMConfig)
    agent, statistics = restored(config.alg, facts["observation_size"], facts["action_size"], weights)
    low, high = (np.array(facts["action"][end], dtype=facts["action"]["dtype"]) for end in ("low", "high"))
    return ControlChampion(agent.greedy(statistics), facts["observation_size"], low, high)


class PolicyGraph(nn.Module):
    """Raw observations [n, O] -> actions [n, ...] in the environment's own bounds."""

    def __init__(self, agent: Agent, statistics: Normaliser, low: Tensor, high: Tensor) -> None:
        super().__init__()
        self.model, self.actor = agent.model, agent.actor
        mean, inverse = statistics.tensors(torch.device("cpu"))
        for name, value in {"mean": mean, "inverse": inverse, "low": low, "high": high}.items():
            self.register_buffer(name, value)

    def forward(self, observation: Tensor) -> Tensor:
        held: dict[str, Any] = dict(self.named_buffers(recurse=False))
        seen = ((observation - held["mean"]) * held["inverse"]).clamp(-10.0, 10.0)
        unit = 0.5 * (self.actor(self.model.encode(seen), None) + 1.0)
        low, high = held["low"], held["high"]
        action: Tensor = low + unit.reshape(-1, *low.shape) * (high - low)
        return action
