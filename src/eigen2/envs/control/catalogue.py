"""The control tasks by name."""

from eigen2.envs.control.config import TaskName
from eigen2.envs.control.floating import Ant, Humanoid
from eigen2.envs.control.planar import Cheetah, Hopper
from eigen2.envs.control.swing import CartPole, Pendulum
from eigen2.envs.control.task import SimulatedTask
from eigen2.errors import ConfigError

TASKS: dict[str, type[SimulatedTask]] = {
    kind.name: kind for kind in (Pendulum, CartPole, Hopper, Cheetah, Ant, Humanoid)
}


def make_task(name: TaskName | str) -> SimulatedTask:
    if name not in TASKS:
        raise ConfigError(f"there is no control task {name!r}; the tasks are {', '.join(TASKS)}")
    return TASKS[name]()
