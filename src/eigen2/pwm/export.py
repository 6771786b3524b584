"""Files for those who want a policy without this package's run directory: plain tensors, safe to load.

A policy file holds the encoder, the evaluated actor, the observation statistics and the config they were built with;
`torch.load(path, weights_only=True)` reads it, and `load_policy` makes it act.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from eigen2.envs.control.reference_policies import Policy
from eigen2.envs.control.task import PHYSICS_NOTE
from eigen2.errors import DamagedStateError
from eigen2.pwm.agent import Agent
from eigen2.pwm.config import PWMConfig
from eigen2.pwm.normaliser import Normaliser

FORMAT = "eigen2-pwm-policy-1"


def policy_contents(state: dict[str, Any], config: PWMConfig, task: str) -> dict[str, Any]:
    """What a policy file holds, from a trainer's state; nested dicts of tensors, numbers and strings."""
    statistics = state["collector"]["observations"]
    return {
        "format": FORMAT,
        "task": task,
        "observation_size": len(statistics["mean"]),
        "action_size": len(state["agent"]["actor"]["log_std"]),
        "config": config.model_dump_json(),
        "iteration": int(state["iteration"]),
        "agent": state["agent"],
        "observations": {name: torch.as_tensor(value) for name, value in statistics.items()},
    }


def save_policy(path: Path, state: dict[str, Any], config: PWMConfig, task: str) -> None:
    torch.save(policy_contents(state, config, task), path)


def save_checkpoint(path: Path, state: dict[str, Any], config: PWMConfig, task: str) -> None:
    """The whole training state but the replay, with arrays as tensors so that weights_only loading accepts it."""
    torch.save({**policy_contents(state, config, task), "training": _as_tensors(state)}, path)


def load_policy(path: Path) -> Policy:
    """Observations [count, O] -> actions [count, A], exactly as the run evaluated it."""
    contents = torch.load(path, map_location="cpu", weights_only=True)
    if contents.get("format") != FORMAT:
        raise DamagedStateError(f"{path} is not a policy exported by eigen2; export the run again")
    config = PWMConfig.model_validate_json(contents["config"])
    observations, actions = contents["observation_size"], contents["action_size"]
    agent = Agent(config, observations, actions, seed=0, device=torch.device("cpu"))
    agent.load_state_dict(contents["agent"])
    statistics = Normaliser(observations)
    statistics.load_state_dict(contents["observations"])
    return agent.greedy(statistics)


def model_card(
    config: PWMConfig, task: str, seed: int, scores: dict[str, float], stand_still: float, random: float
) -> str:
    """Markdown: what the policy is, what it scored, and what those scores are worth."""
    rows = "\n".join(f"| {name} | {score:.1f} |" for name, score in scores.items())
    return f"""# PWM policy for {task}

{PHYSICS_NOTE}.

| | mean return |
|---|---|
{rows}
| standing still | {stand_still:.1f} |
| random actions | {random:.1f} |

Real rewards, closed loop, without exploration noise. Dynamics: {config.model.dynamics}; latent {config.model.latent},
units {list(config.model.units)}; {config.iterations} iterations of {config.environments} x {config.steps} steps;
seed {seed}.

```python
from pathlib import Path
from eigen2.pwm.export import load_policy

policy = load_policy(Path("best_policy.pt"))  # observations [n, O] -> actions [n, A]
```
"""


def _as_tensors(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _as_tensors(value) for key, value in state.items()}
    return torch.as_tensor(state) if isinstance(state, np.ndarray) else state
