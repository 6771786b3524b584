"""How large a control task's vectors are, without keeping the task open."""

from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache

from eigen2.envs.config import EnvConfig
from eigen2.envs.control.rollout import MOST_STEPS


@dataclass(frozen=True)
class ControlSizes:
    observation: int
    action: int
    episode_steps: int
    """At most."""


@lru_cache(maxsize=16)
def control_sizes(env: EnvConfig) -> ControlSizes:
    from eigen2.envs.control.catalogue import control_task

    with closing(control_task(env)) as task:
        return ControlSizes(task.observation_size, task.action_size, task.episode_steps or MOST_STEPS)
