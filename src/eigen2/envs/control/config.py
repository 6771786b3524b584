"""What a control environment can be told."""

from typing import Literal

from pydantic import Field

from eigen2.section import Section

TaskName = Literal[
    "pendulum", "dflex_cartpole", "dflex_hopper", "dflex_cheetah", "dflex_ant", "dflex_humanoid"
]  # fmt: skip


class ControlConfig(Section):
    kind: Literal["control"] = "control"
    task: TaskName = "pendulum"
    """Robot and reward. MuJoCo physics: scores are not comparable with dflex's."""
    threads: int = Field(1, ge=1)
    """Simulator threads; results are the same for any number."""
