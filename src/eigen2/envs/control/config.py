"""The settings of a control environment."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from eigen2.envs.config import EnvConfig, GymConfig
from eigen2.section import ANY_VALUE

TaskName = Literal[
    "pendulum", "dflex_cartpole", "dflex_hopper", "dflex_cheetah", "dflex_ant", "dflex_humanoid"
]  # fmt: skip


class ControlConfig(EnvConfig):
    gone = {"threads": ANY_VALUE}

    kind: Literal["control"] = "control"
    task: TaskName = "pendulum"
    """Robot and reward. MuJoCo physics: scores are not comparable with dflex's."""

    @property
    def label(self) -> str:
        return self.task


class TasksConfig(EnvConfig):
    """Several tasks, each known by stored experience: for world models that are learned from data alone."""

    kind: Literal["tasks"] = "tasks"
    replays: tuple[Path, ...] = ()
    """Runs, or RUN/checkpoints/*.json, whose replays are the data; several of one task are joined."""
    tasks: tuple[Annotated[ControlConfig | GymConfig, Field(discriminator="kind")], ...] = ()
    """The task of each replay; read from the runs' own configs when a run starts."""

    @property
    def label(self) -> str:
        return "tasks"

    @property
    def distinct(self) -> tuple[ControlConfig | GymConfig, ...]:
        """Every task once, in the order in which its first replay was given."""
        return tuple(task for position, task in enumerate(self.tasks) if task not in self.tasks[:position])
