"""How large a control task's vectors are, without keeping the task open."""

from contextlib import closing
from dataclasses import dataclass

from eigen2.envs.config import EnvConfig
from eigen2.envs.control.rollout import MOST_STEPS


@dataclass(frozen=True)
class ControlSizes:
    observation: int
    action: int
    episode_steps: int
    """At most."""
    observation_rows: int | None = None


_known: dict[str, ControlSizes] = {}


def control_sizes(env: EnvConfig) -> ControlSizes:
    from eigen2.envs.control.catalogue import control_task

    key = env.model_dump_json()
    if key not in _known:
        with closing(control_task(env)) as task:
            _known[key] = ControlSizes(
                task.observation_size,
                task.action_size,
                task.episode_steps or MOST_STEPS,
                task.observation_rows,
            )
    return _known[key]
