"""What the harness asks of an algorithm. It knows nothing else about it."""

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from eigen2.replay import Replay

Progress = Callable[[str, int, int], None]
"""Called by a trainer with (phase, done, total)."""


class Trainer(Protocol):
    """One step is one generation (ERL) or one iteration (PWM)."""

    replay: Replay

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        ...

    @property
    def done(self) -> bool: ...

    @property
    def best_score(self) -> float:
        """Real evaluation of the best agent so far; a change makes the next checkpoint `best`."""
        ...

    def step(self) -> dict[str, float]:
        """Advance once; the result is plain numbers, the same in every run of the same seed."""
        ...

    def best_weights(self) -> dict[str, Tensor]:
        """The best agent, for people who open it elsewhere."""
        ...

    def use_replay(self, replay: Replay) -> None:
        """Go on with a restored replay."""
        ...

    def take_records(self) -> dict[str, list[dict[str, Any]]]:
        """Further log records of the last step, by log."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything but the replay, as nested dicts of tensors, arrays, numbers and strings."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
