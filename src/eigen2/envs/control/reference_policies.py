"""What doing nothing and doing anything earn: the two scores every control result is shown beside.

Standing still already earns more than 1,000 on some tasks, so a return means little without them.
"""

import numpy as np
from numpy.typing import NDArray

from eigen2 import seeds
from eigen2.envs.control.environments import Task
from eigen2.envs.control.rollout import Policy


def stand_still(task: Task) -> Policy:
    """The middle of the action space, zero torque where the space is symmetric."""
    return lambda observation: np.zeros((len(observation), task.action_size), dtype=np.float32)


def at_random(task: Task, seed: int) -> Policy:
    """Uniform actions from their own stream."""
    stream = seeds.generator(seed, "random policy")

    def policy(observation: NDArray[np.float32]) -> NDArray[np.float32]:
        return stream.uniform(-1.0, 1.0, (len(observation), task.action_size)).astype(np.float32)

    return policy
