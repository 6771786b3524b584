"""The control tasks by name."""

from eigen2.envs.config import EnvConfig, GymConfig
from eigen2.envs.control.config import ControlConfig, TaskName
from eigen2.envs.control.environments import Task
from eigen2.envs.control.floating import Ant, Humanoid
from eigen2.envs.control.gymnasium_task import GymnasiumTask
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


def control_task(env: EnvConfig) -> Task:
    """The task that a config names; whoever asks for it closes it."""
    if isinstance(env, GymConfig):
        return GymnasiumTask(env)
    if isinstance(env, ControlConfig):
        return make_task(env.task)
    raise ConfigError(f"env={env.label} is not one control task; use e.g. env=dflex_ant.")
