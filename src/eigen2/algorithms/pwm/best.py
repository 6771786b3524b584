"""The best evaluation of a run: its score, and the weights that earned it."""

from collections.abc import Callable
from typing import Any


class Best:
    """`record` every evaluation; `weights` are nested dicts as in a `state_dict`, empty before the first."""

    def __init__(self) -> None:
        self.score = float("-inf")
        self.iteration = 0
        self.weights: dict[str, Any] = {}

    def record(self, score: float, iteration: int, weights: Callable[[], dict[str, Any]]) -> None:
        """`weights` is called for a copy of the weights if the evaluation is the best so far."""
        if score > self.score:
            self.score, self.iteration, self.weights = score, iteration, weights()

    def state_dict(self) -> dict[str, Any]:
        return {"score": self.score, "iteration": self.iteration, "weights": dict(self.weights)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.score, self.iteration = float(state["score"]), int(state["iteration"])
        self.weights = dict(state["weights"])
