"""A film of a policy: what it does in its environment, picture by picture."""

import math
from collections.abc import Iterator

from eigen2.envs.control.camera import Frame
from eigen2.envs.control.environments import Task
from eigen2.envs.control.rollout import Policy
from eigen2.evaluation.result import Footage

PICTURES = 25.0
"""A second, at most."""
PURPOSE = "film"


def film(task: Task, policy: Policy, seconds: float, width: int, height: int, seed: int) -> Footage:
    """Episode after episode, from start states of their own, until `seconds` of the world have passed."""
    stage = task.stage(width, height)
    every = max(1, round(1.0 / (PICTURES * stage.step_seconds)))
    count = max(1, math.ceil(seconds / stage.step_seconds))

    def frames() -> Iterator[Frame]:
        try:
            stage.environments.restart(seed, PURPOSE)
            for step in range(count):
                if step % every == 0:
                    yield stage.picture()
                stage.environments.step(policy(stage.environments.observation))
        finally:
            stage.close()

    return Footage(frames(), 1.0 / (every * stage.step_seconds))
